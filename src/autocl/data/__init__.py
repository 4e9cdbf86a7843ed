"""Everything between files on disk and index tensors of a batch of streams."""

from autocl.data.augment import Augment
from autocl.data.eval_streams import (
    TaskSpec,
    build_stream,
    class_range,
    five_datasets,
    mini_split_cifar100,
    split_omniglot,
    split_stream,
)
from autocl.data.folder import from_arrays, from_folder
from autocl.data.glyphs import draw_glyphs
from autocl.data.imageset import ImageSet, LabelledSet, assert_disjoint
from autocl.data.loading import load
from autocl.data.sampler import StreamSampler
from autocl.data.stream import Stream, Task, side_by_side
from autocl.data.stream_config import RandomStreamConfig, StreamConfig

__all__ = [
    "Augment",
    "ImageSet",
    "LabelledSet",
    "RandomStreamConfig",
    "Stream",
    "StreamConfig",
    "StreamSampler",
    "Task",
    "TaskSpec",
    "assert_disjoint",
    "build_stream",
    "class_range",
    "draw_glyphs",
    "five_datasets",
    "from_arrays",
    "from_folder",
    "load",
    "mini_split_cifar100",
    "side_by_side",
    "split_omniglot",
    "split_stream",
]
