"""Networks from files: `onnx:FILE` on onnxruntime, `vit:FILE` in torch."""

import hashlib
from pathlib import Path
from typing import Any, TypedDict

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image
from safetensors import SafetensorError
from safetensors.torch import load

from autocl.encoders.backbones.base import Backbone, BackboneRef, Preprocess, fingerprint_of, needs
from autocl.encoders.vit import ViT
from autocl.errors import FileError
from autocl.typed_json import parse_json

MEAN, STD = (123.675, 116.28, 103.53), (58.395, 57.12, 57.375)
"""Statistics of ImageNet, which most networks are trained with: taken where a file says nothing."""


class SaidPreprocess(TypedDict, total=False):
    """Preprocessing as a file states it, in units of pixels from 0 to 255."""

    size: int
    mean: tuple[float, float, float]
    std: tuple[float, float, float]


def open_session(model: bytes) -> Any:
    """An onnxruntime session on the CPU, with as many threads as torch has, which do not spin."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def onnx_backbone(file: str) -> Backbone:
    """A model file whose one input is images [N, 3, S, S] and whose first output is vectors.

    S is read from the file (224 where it is left open). Pixels are normalised as for ImageNet, unless the
    file's metadata has an entry `autocl.preprocess` such as
    `{"size": 224, "mean": [127, 127, 127], "std": [128, 128, 128]}`, in units of pixels from 0 to 255.
    An output with more axes than [N, F] is averaged over all but the first two.
    """
    path = Path(file).expanduser()
    try:
        model = path.read_bytes()
    except OSError as error:
        raise FileError(f"{path}: cannot be read ({error.strerror}); onnx:FILE names a model file") from error
    name = f"onnx:{file}"
    with needs(name, "onnx", "onnxruntime"):
        import onnxruntime  # noqa: F401  # a clear error before the file is blamed
    try:
        session = open_session(model)
    except Exception as error:  # onnxruntime's errors share no base class
        raise FileError(f"{path}: not an ONNX model that onnxruntime can run ({_line(error)})") from error
    preprocess = _preprocess(session, path)
    entry = session.get_inputs()[0].name

    def run(images: list[Image.Image]) -> npt.NDArray[np.float32]:
        out = np.asarray(session.run(None, {entry: preprocess.normalised(images)})[0], np.float32)
        return out.reshape(*out.shape[:2], -1).mean(2) if out.ndim > 2 else out

    try:
        n_features = run([Image.new("RGB", (8, 8))]).shape[1]
    except Exception as error:
        raise FileError(f"{path}: does not take images to vectors ({_line(error)})") from error
    ref = BackboneRef(
        name=name,
        fingerprint=fingerprint_of(hashlib.sha256(model).hexdigest(), str(preprocess)),
        n_features=n_features,
        preprocessing=str(preprocess),
    )
    return Backbone(ref=ref, image_size=preprocess.size, run=run)


def _preprocess(session: Any, path: Path) -> Preprocess:
    inputs = session.get_inputs()
    shape = inputs[0].shape
    if len(inputs) != 1 or len(shape) != 4 or inputs[0].type != "tensor(float)":
        found = f"{inputs[0].type} {shape}"
        raise FileError(f"{path}: its input must be one float tensor [N, 3, S, S], got {found}")
    size = shape[2] if isinstance(shape[2], int) else 224
    text = session.get_modelmeta().custom_metadata_map.get("autocl.preprocess")
    said = parse_json(text or "{}", SaidPreprocess, where=f"{path}: its entry autocl.preprocess")
    return Preprocess(size=said.get("size", size), mean=said.get("mean", MEAN), std=said.get("std", STD))


def _line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


HALF = 127.5
"""Mean and deviation of pixels for timm's ViTs of ImageNet-21K, and of those pre-trained here."""


def read_vit(file: str | Path) -> ViT:
    """The network in a file, frozen and in evaluation mode."""
    path = Path(file).expanduser()
    try:
        weights = load(path.read_bytes())
    except (OSError, SafetensorError) as error:
        raise FileError(f"{path}: cannot be read as safetensors ({error}); vit:FILE names one") from error
    return ViT.from_timm({k: v.float() for k, v in weights.items()}).eval().requires_grad_(False)


def vit_backbone(file: str) -> Backbone:
    """The class token's output; pixels from -1 to 1, as timm's ViTs of ImageNet-21K take them.

    `timm:NAME` knows the preprocessing of every model; this needs neither timm nor torchvision, only the
    `model.safetensors` that a hub keeps of a model.
    """
    vit = read_vit(file)
    preprocess = Preprocess(size=vit.config.image_size, mean=(HALF,) * 3, std=(HALF,) * 3)

    def run(images: list[Image.Image]) -> npt.NDArray[np.float32]:
        with torch.inference_mode():
            out: npt.NDArray[np.float32] = vit(torch.from_numpy(preprocess.normalised(images))).numpy()
        return out

    ref = BackboneRef(
        name=f"vit:{file}",
        fingerprint=fingerprint_of(vit.state_dict(), str(preprocess)),
        n_features=vit.config.width,
        preprocessing=str(preprocess),
    )
    return Backbone(ref=ref, image_size=preprocess.size, run=run)
