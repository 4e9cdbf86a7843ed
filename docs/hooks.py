"""mkdocs: the results page is filled when the guide is built."""

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))
from tools.results_table import BEGIN, ROOT, filled, results_table


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Called by mkdocs for every page."""
    return filled(markdown, results_table(ROOT / "results")) if BEGIN in markdown else markdown
