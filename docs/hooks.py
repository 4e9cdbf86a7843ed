"""mkdocs: pages with results are filled when the guide is built."""

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))
from tools.results_table import BEGIN, ROOT, WORLD_BEGIN, WORLD_END, filled, results_table, world_markdown


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Called by mkdocs for every page."""
    results = ROOT / "results"
    if BEGIN in markdown:
        markdown = filled(markdown, results_table(results))
    if WORLD_BEGIN in markdown:
        markdown = filled(markdown, world_markdown(results), WORLD_BEGIN, WORLD_END)
    return markdown
