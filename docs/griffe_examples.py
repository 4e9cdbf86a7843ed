"""griffe, which reads docstrings for the reference, only formats sections named "Examples"."""

from typing import Any

import griffe


class Examples(griffe.Extension):
    """Reads our "Example:" as that."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        """Called for every module, class and function."""
        if obj.docstring:
            obj.docstring.value = obj.docstring.value.replace("\nExample:\n", "\nExamples:\n")
