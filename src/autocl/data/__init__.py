"""Everything between files on disk and index tensors of a batch of streams."""

from autocl.data.augment import Augment
from autocl.data.imageset import ImageSet
from autocl.data.loading import load

__all__ = ["Augment", "ImageSet", "load"]
