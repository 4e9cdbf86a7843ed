"""Everything between files on disk and index tensors of a batch of streams."""

from autocl.data.augment import Augment
from autocl.data.fixed import (
    Stage,
    chain_stream,
    five_datasets,
    half,
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
    "Stage",
    "Stream",
    "StreamConfig",
    "StreamSampler",
    "Task",
    "assert_disjoint",
    "chain_stream",
    "draw_glyphs",
    "five_datasets",
    "from_arrays",
    "from_folder",
    "half",
    "load",
    "mini_split_cifar100",
    "side_by_side",
    "split_omniglot",
    "split_stream",
]
