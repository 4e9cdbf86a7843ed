"""Everything between files on disk and index tensors of a batch of streams."""

from autocl.data.augment import Augment
from autocl.data.glyphs import draw_glyphs
from autocl.data.imageset import ImageSet
from autocl.data.loading import load
from autocl.data.own import from_arrays, from_folder
from autocl.data.sheet import contact_sheet

__all__ = ["Augment", "ImageSet", "contact_sheet", "draw_glyphs", "from_arrays", "from_folder", "load"]
