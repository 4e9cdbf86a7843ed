"""Networks from hubs (`timm:NAME`, `torchvision:NAME`, `hf:REPO`, `open_clip:NAME/TAG`) and from files.

`onnx:FILE` runs on onnxruntime, `vit:FILE` in torch. No hub's file is unpickled: torch files are loaded with
`weights_only`, transformers' are safetensors.
"""

import hashlib
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypedDict

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image
from safetensors import SafetensorError
from safetensors.torch import load
from torch import Tensor, nn

from autocl.encoders.backbones.base import Backbone, Preprocess, downloading, fingerprint_of, needs
from autocl.encoders.vit import ViT
from autocl.errors import FileError, InputError
from autocl.typed_json import parse_json

HF_CACHE = "Hugging Face cache (~/.cache/huggingface, or HF_HOME)"
TORCH_CACHE = "torch cache (~/.cache/torch, or TORCH_HOME)"


def timm_backbone(model: str) -> Backbone:
    """A model of timm without its classifier, with its own preprocessing."""
    name = f"timm:{model}"
    with needs(name, "timm", "timm"):
        import timm
        import timm.data
    with downloading(name, HF_CACHE):
        network = timm.create_model(model, pretrained=True, num_classes=0)
    config = timm.data.resolve_model_data_config(network)
    transform = timm.data.create_transform(**config, is_training=False)
    return _of_module(name, network, network, _stacked(transform), f"timm {config}", config["input_size"][-1])


def torchvision_backbone(model: str) -> Backbone:
    """A classifier of torchvision with its best weights, up to the input of its last linear layer."""
    name = f"torchvision:{model}"
    with needs(name, "torchvision", "torchvision"):
        from torchvision import models
    with downloading(name, TORCH_CACHE):
        weights = models.get_model_weights(model).DEFAULT
        classes = weights.meta.get("categories")  # where their number is not the model's default
        width = {} if classes is None else {"num_classes": len(classes)}
        network = models.get_model(model, weights=None, **width)
        # Loaded here: torchvision itself would unpickle the file.
        network.load_state_dict(weights.get_state_dict(check_hash=True, weights_only=True))
    linear = [path for path, part in network.named_modules() if isinstance(part, nn.Linear)]
    if not linear:
        raise InputError(f"{name} has no linear layer at its end to take the features from: choose another")
    network.set_submodule(linear[-1], nn.Identity())
    transform = weights.transforms()
    size = transform.crop_size[0]
    return _of_module(name, network, network, _stacked(transform), f"torchvision {_text(transform)}", size)


def hf_backbone(repo: str) -> Backbone:
    """An image model of transformers: the class token, else the mean of the last layer's tokens or map.

    Models of images and text give their image embedding. A pooler is not used: many files lack its weights.
    """
    name = f"hf:{repo}"
    with needs(name, "hf", "transformers"):
        from transformers import AutoImageProcessor, AutoModel
    with downloading(name, HF_CACHE):
        processor = AutoImageProcessor.from_pretrained(repo)
        network, found = AutoModel.from_pretrained(repo, use_safetensors=True, output_loading_info=True)
    random = sorted(key for key in found["missing_keys"] if not key.startswith("pooler."))
    if random:
        raise FileError(
            f"{name}: its file lacks {random[0]}, so that features would be random: choose another"
        )
    token = any(key.endswith(("cls_token", "class_embedding")) for key, _ in network.named_parameters())

    def forward(x: Tensor) -> Tensor:
        if hasattr(network, "get_image_features"):
            out = network.get_image_features(pixel_values=x)
            return out if isinstance(out, Tensor) else out.pooler_output  # by version of transformers
        last: Tensor = network(pixel_values=x).last_hidden_state
        if last.ndim == 4:
            return last.mean((2, 3))
        return last[:, 0] if token else last.mean(1)

    def prepare(images: list[Image.Image]) -> Tensor:
        pixels: Tensor = processor(images=images, return_tensors="pt")["pixel_values"]
        return pixels

    size = int(prepare([Image.new("RGB", (8, 8))]).shape[-1])
    text = " ".join(f"transformers {type(processor).__name__} {processor.to_json_string()}".split())
    return _of_module(name, network, forward, prepare, text, size)


def open_clip_backbone(model: str) -> Backbone:
    """The image half of a model of open_clip, named NAME/TAG, e.g. `ViT-B-32/laion2b_s34b_b79k`."""
    name = f"open_clip:{model}"
    kind, _, tag = model.rpartition("/")
    if not kind:
        raise InputError(f"{name!r} names no weights: write NAME/TAG, e.g. open_clip:ViT-B-32/openai")
    with needs(name, "open_clip", "open_clip"):
        import open_clip
    with downloading(name, HF_CACHE):
        network, _, transform = open_clip.create_model_and_transforms(kind, pretrained=tag, weights_only=True)
    size = int(transform(Image.new("RGB", (8, 8))).shape[-1])
    text = f"open_clip {_text(transform)}"
    return _of_module(name, network, network.encode_image, _stacked(transform), text, size)


def _text(transform: object) -> str:
    """A transform in one line, the same in every process: without the addresses of functions in it."""
    return re.sub(r" at 0x[0-9a-fA-F]+", "", " ".join(repr(transform).split()))


def _stacked(transform: Callable[[Image.Image], Tensor]) -> Callable[[list[Image.Image]], Tensor]:
    return lambda images: torch.stack([transform(image) for image in images])


def _of_module(
    name: str,
    network: nn.Module,
    forward: Callable[[Tensor], Tensor],
    prepare: Callable[[list[Image.Image]], Tensor],
    preprocessing: str,
    size: int,
) -> Backbone:
    """A backbone around a torch module, in evaluation mode from here on."""
    network.eval().requires_grad_(False)

    def run(images: list[Image.Image]) -> npt.NDArray[np.float32]:
        with torch.inference_mode():
            return forward(prepare(images)).flatten(1).float().numpy()

    # transformers' pooler is not used, and random where its file lacks it.
    weights = {key: value for key, value in network.state_dict().items() if not key.startswith("pooler.")}
    return Backbone(
        name=name,
        fingerprint=fingerprint_of(weights, preprocessing),
        n_features=run([Image.new("RGB", (8, 8))]).shape[1],
        image_size=size,
        run=run,
    )


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
    return Backbone(
        name=name,
        fingerprint=fingerprint_of(hashlib.sha256(model).hexdigest(), str(preprocess)),
        n_features=n_features,
        image_size=preprocess.size,
        run=run,
    )


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

    def prepare(images: list[Image.Image]) -> Tensor:
        return torch.from_numpy(preprocess.normalised(images))

    return _of_module(f"vit:{file}", vit, vit, prepare, str(preprocess), preprocess.size)
