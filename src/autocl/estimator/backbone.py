"""Pictures through a frozen network, on their way to a learner of vectors.

Shape legend: n = images, F = features.
"""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from autocl.encoders.backbones import Backbone, get_backbone
from autocl.errors import InputError
from autocl.estimator.preprocess import Form, is_pictures
from autocl.pictures import decode

PHOTOS = ("photos", "lite2")
"""What the learner "photos" stands for: learner and backbone. lite2 is the most accurate of the embedded ones
(`benchmarks/backbones.py`)."""
SIDE = 256
"""Pixels a side to which big pictures may be reduced while they are decoded."""


def find_backbone(backbone: str | Backbone) -> Backbone:
    """The backbone that is meant."""
    if isinstance(backbone, Backbone):
        return backbone
    if not isinstance(backbone, str):
        raise InputError(f"backbone={backbone!r} is neither a name nor a Backbone (see callable_backbone)")
    return get_backbone(backbone)


def to_features(X: Any, backbone: Backbone, form: Form) -> tuple[Tensor, Form]:
    """Features [n, F, 1, 1] of pictures X, as a learner of vectors takes them, and their form.

    Args:
        X: files, Pillow images, or uint8 arrays [n, H, W] or [n, H, W, 3], or a list of such.
        backbone: makes the features.
        form: of what came before; features of other weights are refused.
    """
    if form.get("weights", backbone.fingerprint) != backbone.fingerprint:
        raise InputError(
            f"this was learned through backbone {form['backbone']!r} with other weights "
            f"({form['weights'][:12]}) than are installed here ({backbone.fingerprint[:12]})"
        )
    if not is_pictures(X) and not (isinstance(X, np.ndarray) and X.ndim in (3, 4)):
        raise InputError("a classifier with a backbone takes files, Pillow images or uint8 arrays of images")
    pictures = [decode(x, channels=3, at_least=SIDE) if _is_file(x) else x for x in X]
    features = torch.from_numpy(backbone(pictures))[:, :, None, None]
    kept = {"vectors": backbone.n_features, "backbone": backbone.name, "weights": backbone.fingerprint}
    return features, {**form, **kept}


def _is_file(x: object) -> bool:
    return isinstance(x, str | Path | Image.Image)
