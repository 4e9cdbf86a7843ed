"""Backbone: a frozen network, named by a string, from images to feature vectors.

Shape legend: n = images, F = features.
"""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from textwrap import shorten

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image
from torch import Tensor

from autocl.errors import AutoclError, FileError, InputError
from autocl.ops.pixels import look_up, resize
from autocl.pictures import upright


@dataclass(frozen=True, kw_only=True)
class Preprocess:
    """Squeeze into a square (nothing is cut off), then (pixel − mean) / std with pixels from 0 to 255.

    Networks are trained on crops squeezed by up to a third, so that a usual photograph suffers little.
    """

    size: int
    mean: tuple[float, float, float]
    std: tuple[float, float, float]

    def __str__(self) -> str:
        channels = f"minus {list(self.mean)}, divided by {list(self.std)}"
        return f"RGB squeezed to {self.size}×{self.size} (bicubic), {channels}"

    def normalised(self, images: Sequence[Image.Image]) -> npt.NDArray[np.float32]:
        """RGB images of any size to [n, 3, S, S], normalised."""
        n, S = len(images), self.size
        pixels = np.empty((n, S, S, 3), np.uint8)
        for i, image in enumerate(images):
            pixels[i] = np.asarray(image) if image.size == (S, S) else resize(image, S)
        mean, std = (np.array(of_channel, np.float32)[:, None] for of_channel in (self.mean, self.std))
        out = np.empty((n, 3, S, S), np.float32)
        # One look at each byte instead of three passes over floats.
        levels = (np.arange(256, dtype=np.float32) - mean) / std
        look_up(pixels.reshape(n, -1, 3), levels, out.reshape(n, 3, -1))
        return out


@contextmanager
def needs(backbone: str, extra: str, package: str) -> Iterator[None]:
    """Around an import: when `package` is missing, say which extra of autocl brings it."""
    try:
        yield
    except ImportError as error:
        raise InputError(
            f"backbone {backbone!r} needs {package} ({error}): pip install 'autocl[{extra}]'"
        ) from error


@contextmanager
def downloading(backbone: str, folder: str) -> Iterator[None]:
    """Around a hub's loading: whatever it raises becomes one line with the remedy.

    Args:
        backbone: what was asked for.
        folder: where the hub keeps what it has downloaded.
    """
    try:
        yield
    except AutoclError:
        raise
    except Exception as error:  # each hub and each network library has errors of its own
        line = shorten(str(error), 200, placeholder=" …")
        raise FileError(
            f"backbone {backbone!r} could not be loaded ({type(error).__name__}: {line}). Check the name; if "
            f"this machine is offline, load it once on one that is not and copy that one's {folder} here"
        ) from error


Picture = Image.Image | npt.NDArray[np.uint8]
"""A Pillow image, or uint8 [H, W], [H, W, 1], [H, W, 3] or [H, W, 4]."""

BATCH = 16
"""Images a network sees at once: enough to be fast, little enough to stay in a cache."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Backbone:
    """A frozen encoder: call it with images.

    Example:
        >>> brightness = Backbone(name="mine", fingerprint="1", n_features=1, image_size=8, run=lambda images:
        ...     np.stack([np.asarray(image, np.float32).mean((0, 1))[:1] for image in images]))
        >>> brightness([np.full((5, 4), 7, np.uint8)]).tolist()
        [[7.0]]
    """

    name: str
    """Name by which `get_backbone` finds it."""
    fingerprint: str
    """SHA-256 over weights and preprocessing: features of two backbones mix only if these agree."""
    n_features: int
    """Length of one image's vector."""
    image_size: int
    """Pixels a side the network looks at: bigger pictures may be decoded at a fraction of their size."""
    run: Callable[[list[Image.Image]], npt.NDArray[np.float32]]
    """RGB images to [n, F], for at most `BATCH` of them."""

    def __call__(self, images: Sequence[Picture]) -> npt.NDArray[np.float32]:
        """Features float32 [n, F] of images of any size; each image's do not depend on the others."""
        out = np.empty((len(images), self.n_features), np.float32)
        for start in range(0, len(images), BATCH):
            batch = [as_image(image) for image in images[start : start + BATCH]]
            made = np.asarray(self.run(batch), np.float32)
            if made.shape != (len(batch), self.n_features):
                raise InputError(
                    f"backbone {self.name!r} gave shape {list(made.shape)} for {len(batch)} images: it must "
                    f"be [{len(batch)}, {self.n_features}]"
                )
            out[start : start + len(batch)] = made
        if not np.isfinite(out).all():
            raise InputError(f"backbone {self.name!r} gave NaN or infinity: check its weights and the images")
        return out


def as_image(picture: Picture) -> Image.Image:
    """A Pillow image or an array of bytes, as RGB."""
    if isinstance(picture, Image.Image):
        return upright(picture, channels=3)
    shape = picture.shape
    if picture.dtype != np.uint8 or not (len(shape) == 2 or (len(shape) == 3 and shape[2] in (1, 3, 4))):
        raise InputError(
            "an image is uint8 [height, width] or [height, width, 1, 3 or 4], "
            f"got {picture.dtype} {list(shape)}"
        )
    image = Image.fromarray(picture[..., 0] if shape[2:] == (1,) else picture)
    return upright(image, channels=3)


def fingerprint_of(weights: Mapping[str, Tensor] | str, preprocessing: str) -> str:
    """SHA-256 over preprocessing and tensors (names, types, shapes, values) or the sum of their file."""
    digest = hashlib.sha256(json.dumps(preprocessing).encode())
    if isinstance(weights, str):
        digest.update(weights.encode())
        return digest.hexdigest()
    for name, tensor in weights.items():
        value = tensor.detach().cpu().contiguous()
        digest.update(repr((name, str(value.dtype), tuple(value.shape))).encode())
        digest.update(value.flatten().view(torch.uint8).numpy().data)
    return digest.hexdigest()
