"""One file per image set, or per family made from the same files; `autocl.data.catalog` finds them all."""
