"""One file per format: from bytes on disk to blocks of images and labels, or a clear error."""
