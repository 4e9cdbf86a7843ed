"""EfficientNet-Lite as an ONNX graph, for onnxruntime: half the time of eager torch on a CPU."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from autocl.encoders.backbones.efficientnet_lite import Block, EfficientNetLite, Unit

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
