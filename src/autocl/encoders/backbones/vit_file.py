"""`vit:FILE`: a plain vision transformer from a safetensors file with timm's names."""

from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image
from safetensors import SafetensorError
from safetensors.torch import load

from autocl.encoders.backbones.base import Backbone, BackboneRef, Preprocess, fingerprint_of
from autocl.encoders.vit import ViT
from autocl.errors import FileError

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
