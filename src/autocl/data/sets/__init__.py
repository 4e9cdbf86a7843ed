"""One file per family of sets: what it is, where it lies, which reader opens it."""
