"""Everything between files on disk and index tensors of a batch of streams."""

from autocl.data.augment import Augment
from autocl.data.eval_streams import split_stream
from autocl.data.folder import from_arrays, from_folder
from autocl.data.glyphs import draw_glyphs
from autocl.data.imageset import ImageSet
from autocl.data.loading import load
from autocl.data.sampler import StreamSampler
from autocl.data.stream import Stream
from autocl.data.stream_config import StreamConfig

__all__ = [
    "Augment",
    "ImageSet",
    "Stream",
    "StreamConfig",
    "StreamSampler",
    "draw_glyphs",
    "from_arrays",
    "from_folder",
    "load",
    "split_stream",
]
