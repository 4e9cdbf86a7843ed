"""Networks from hubs: `timm:NAME`, `torchvision:NAME`, `hf:REPO`, `open_clip:NAME/TAG`.

No hub's file is unpickled: torch files are loaded with `weights_only`, transformers' are safetensors.
"""

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image
from torch import Tensor, nn

from autocl.encoders.backbones.base import Backbone, BackboneRef, downloading, fingerprint_of, needs
from autocl.errors import FileError, InputError

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
        network = models.get_model(model, weights=None, **_width(weights))
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


def _width(weights: Any) -> dict[str, int]:
    """Number of classes the weights were trained on, where that is not the model's default."""
    classes = weights.meta.get("categories")
    return {} if classes is None else {"num_classes": len(classes)}


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
    ref = BackboneRef(
        name=name,
        fingerprint=fingerprint_of(weights, preprocessing),
        n_features=run([Image.new("RGB", (8, 8))]).shape[1],
        preprocessing=preprocessing,
    )
    return Backbone(ref=ref, image_size=size, run=run)
