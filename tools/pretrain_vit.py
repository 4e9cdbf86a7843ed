"""Pre-train a small ViT on training classes of mini- and Tiny-ImageNet at 32 pixels.

    python -m tools.pretrain_vit runs/vit32.safetensors

No public ViT weights are in reach of a machine without a hub; the prompt methods (L2P, DualPrompt) need one.
This one is a stand-in, by far weaker than ViT-B/16 after ImageNet-21K, and results say so. Classes that
mini-ImageNet holds out, and their namesakes in Tiny-ImageNet, are not trained on. The file has timm's names.
"""

import argparse
import time
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save as as_bytes
from torch import Tensor, nn
from torch.nn import functional as F

from autocl.encoders.backbones.sources import HALF
from autocl.encoders.vit import ViT, ViTConfig
from autocl.files import write_bytes
from autocl.training.recipe import Source
from autocl.training.run import load_sets

SMALL = ViTConfig(image_size=32, patch=8, width=192, depth=6, heads=3)
"""Patches of 8 pixels: 4.3 times as many images a second as patches of 4."""


def training_images() -> tuple[np.ndarray, np.ndarray]:
    """Pixels uint8 [n, 3, 32, 32] and classes [n] of both sets."""
    pixels, labels, offset = [], [], 0
    for name in ("mini_imagenet", "tiny_imagenet"):
        images, _ = load_sets(Source(name=name), size=32, channels=3)
        pixels.append(images.images)
        labels.append(images.labels + offset)
        offset += images.n_classes
    return np.concatenate(pixels), np.concatenate(labels)


def augmented(pixels: np.ndarray, rng: np.random.Generator) -> Tensor:
    """Mirrored every second time, shifted by up to four pixels; network input."""
    x = torch.from_numpy(pixels).float().sub(HALF).div(HALF)
    flip = torch.from_numpy(rng.random(len(x)) < 0.5)
    x[flip] = x[flip].flip(-1)
    down, right = rng.integers(0, 9, 2).tolist()
    return F.pad(x, (4, 4, 4, 4))[..., down : down + 32, right : right + 32].contiguous()


def save(vit: ViT, out: Path) -> None:
    """In half precision."""
    weights = {name: value.half().contiguous() for name, value in vit.state_dict().items()}
    write_bytes(out, as_bytes(weights))


def main() -> None:
    """Train, print, save."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--steps", type=int, default=3000)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--rate", type=float, default=1e-3)
    args = parser.parse_args()
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    pixels, labels = training_images()
    vit = ViT(SMALL)
    head = nn.Linear(SMALL.width, int(labels.max()) + 1)
    weights = [*vit.parameters(), *head.parameters()]
    adam = torch.optim.AdamW(weights, lr=args.rate, weight_decay=0.05, betas=(0.9, 0.99))
    plan = torch.optim.lr_scheduler.OneCycleLR(adam, args.rate, total_steps=args.steps, pct_start=0.1)
    right, start = [], time.process_time()
    for step in range(1, args.steps + 1):
        rows = rng.integers(0, len(labels), args.batch)
        target = torch.from_numpy(labels[rows])
        with torch.autocast("cpu", torch.bfloat16):
            logits = head(vit(augmented(pixels[rows], rng))).float()
        loss = F.cross_entropy(logits, target, label_smoothing=0.1)
        adam.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(weights, 1.0)
        adam.step()
        plan.step()
        right.append(float((logits.argmax(1) == target).float().mean()))
        if step % 200 == 0 or step == args.steps:
            save(vit, args.out)
            minutes = (time.process_time() - start) / 60
            print(
                f"step {step}: {100 * np.mean(right[-200:]):.1f} % of {head.out_features} classes, "
                f"{minutes:.1f} CPU minutes",
                flush=True,
            )


if __name__ == "__main__":
    main()
