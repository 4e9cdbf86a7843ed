"""From a run to a shipped learner: its weights, and a card whose every number comes from a file.

    python -m tools.ship RUN NAME      copy a run's best learner into the zoo and write its card
    python -m tools.ship               write all cards anew, from results/
 `ship` copies the best learner of a run and records how it came to be;
`write_card` writes the card from that record and from the results measured since.
"""

import json
import sys
from pathlib import Path
from typing import Any

from tools.training_command import command_of

from autocl import zoo
from autocl.data import ImageSet
from autocl.errors import FileError
from autocl.evaluation.protocols import PROTOCOLS
from autocl.evaluation.results import read_results
from autocl.evaluation.table import lines, markdown
from autocl.files import read_tensors, write_json, write_text
from autocl.learner.fast import Learner
from autocl.learner.find import learner_file
from autocl.training import checkpoint
from autocl.training.log import read_log
from autocl.training.recipe import Recipe, provenance, read_recipe, recipe_to_dict
from autocl.training.sources import sets_of

ZOO = Path(zoo.__file__).parent
PURPOSE = {
    "two-task": "Two 5-way tasks, one after the other, in either order; the paper's comprehensible case.",
    "two-task-noacl": "The same without the backward terms: it forgets the first task. For comparison only.",
    "three-task": "Three 5-way tasks from three domains; Tiny-ImageNet stands in for FC100.",
    "split-domain": "Streams of 2-way tasks that share two outputs (domain-incremental).",
    "split-domain-linear": "split-domain without our read-out: the paper's architecture, the same recipe.",
    "split-class-linear": "split-class without our read-out: the paper's architecture, the same recipe.",
    "split-class": "Streams of 2-way tasks in which every class has its own output, ten in all.",
    "everyday": "For daily use: streams of any shape, up to 20 classes, few or many demos of each.",
    "quick": "Drawn glyphs, two tasks; small enough that the demo can train it live.",
}

PROMPTED = {
    "everyday": "A test table of the stage before showed that it was poor where classes share\n"
    "labels; the remedy was chosen on validation classes (docs/notebook.md), and so was the checkpoint."
}
"""Whose design a test set had a part in, and which."""


def ship(run: str | Path, name: str, *, folder: Path = ZOO) -> Path:
    """Copy the best learner of a run into the zoo, with NAME.json beside it: how it was made.

    Args:
        run: the run's folder.
        name: in the zoo.
        folder: where to.

    Returns:
        The learner's file.
    """
    run = Path(run)
    recipe, log = read_recipe(run), read_log(run / "log.jsonl")
    learner = Learner.from_pretrained(run / "best.safetensors")
    progress = checkpoint.read_progress(run)
    record = {
        "fingerprint": learner.fingerprint(),
        "recipe": recipe_to_dict(recipe),
        "started_from": _start(recipe),
        "rule": recipe.rule,
        "steps_done": progress.step,
        "best_step": progress.best_step,
        "best_score": progress.best_score,
        "seconds": progress.seconds,
        "validation": [[r["step"], r["validation/score"]] for r in log if "validation/score" in r],
        "data": _data(recipe),
    }
    meta = {"name": name, **provenance(recipe)}
    file = learner.save_pretrained(folder / f"{name}.safetensors", meta=meta)
    write_json(folder / f"{name}.json", record)
    return file


def write_card(name: str, results: str | Path = "results", *, folder: Path = ZOO) -> Path:
    """Write NAME.md from NAME.json and from all results of this very learner."""
    record = _record(folder / f"{name}.json")
    learner = Learner.from_pretrained(folder / f"{name}.safetensors")
    c, parameters = learner.config, sum(p.numel() for p in learner.parameters())
    recipe = record["recipe"]
    curve = "\n".join(f"| {step} | {100 * score:.2f} |" for step, score in record["validation"])
    data = "\n".join(f"| {d['set']} | {d['classes']} | `{d['hash']}` |" for d in record["data"])
    selected = recipe["validation"]["split"]
    chosen = (
        f"the Split-{selected} stream over 5,000 held-out *training* images of that set"
        if selected
        else "streams over validation classes of the same sets"
    )
    text = f"""# {name}

{PURPOSE.get(name, "")}

{parameters:,} parameters, {c.n_classes} outputs, input {c.height}×{c.width}×{c.channels}, state
{learner.initial_state().nbytes / 1000:.0f} KB, mixer `{c.mixer}`, read-out `{c.readout}`, fingerprint
`{learner.fingerprint()}`.
Licence: MIT for the weights; the image sets have their own (`autocl data list`).

## How it was made
Recipe `{recipe["name"]}`, seed {recipe["seed"]}, {record["steps_done"]} of {recipe["steps"]} steps of
{recipe["batch_size"]} streams, {record["seconds"] / 60:.0f} minutes of training on
two cores at most, which other work shared (validation not counted).
The checkpoint of step {record["best_step"]} was chosen by accuracy on {chosen}{_rule(record)}.{_from(record)}
`{name}.json` beside this card holds the whole recipe.{_again(recipe)}{_design(name, recipe)}

| step | validation accuracy (%) |
|---|---|
{curve}

| meta-training set | classes | content |
|---|---|---|
{data}

## What it measured
{_measured(name, learner, Path(results))}
## Limits
Meta-trained on {", ".join(s["name"] for s in recipe["sources"])} with streams of the recipe's shape.
Other kinds of images, more tasks, other numbers of demos: measure before you rely on it (`autocl eval`).
"""
    path = folder / f"{name}.md"
    write_text(path, text)
    return path


def _measured(name: str, learner: Learner, results: Path) -> str:
    """The tables of this learner; results of other weights under the same name do not count."""
    tables = []
    for protocol in PROTOCOLS.values():
        own = [
            r
            for r in read_results(results, protocol.name)
            if r.entry == name and r.identity.get("fingerprint") == learner.fingerprint()
        ]
        if own:
            tables.append(markdown(lines(protocol, own), title=protocol.title).replace("# ", "### ", 1))
    return "\n".join(tables) or "Nothing yet: `autocl bench all` measures it.\n"


def _data(recipe: Recipe) -> list[dict[str, Any]]:
    def describe(images: ImageSet) -> dict[str, Any]:
        name = f"{images.name}/{images.split}"
        return {"set": name, "classes": images.n_classes, "hash": images.hash[:16]}

    return [describe(images) for pair in sets_of(recipe) for images in pair]


def _start(recipe: Recipe) -> dict[str, str] | None:
    """What the run was finetuned from: the file may be gone tomorrow, its fingerprint stays."""
    if not recipe.init_from:
        return None
    with learner_file(recipe.init_from) as file:
        _, meta = read_tensors(file, kind="learner")
        return {"recipe": meta.get("recipe", ""), "fingerprint": Learner.from_pretrained(file).fingerprint()}


def _from(record: dict[str, Any]) -> str:
    if not (file := record["recipe"]["init_from"]):
        return ""
    # Learners shipped before this was recorded have only the file's name.
    start = record.get("started_from")
    known = (
        f", a learner of recipe `{start['recipe']}`, fingerprint `{start['fingerprint']}`" if start else ""
    )
    return f"\nIt started from `{file}`{known}."


def _rule(record: dict[str, Any]) -> str:
    # Learners shipped before this was recorded were chosen as their recipe says.
    rule = record.get("rule", record["recipe"]["validation"]["rule"])
    return "" if rule == "average" else ", each task asked right after it was learned"


def _again(recipe: dict[str, Any]) -> str:
    command = command_of(recipe)
    return f" As a command:\n\n    {command}\n" if command else ""


def _design(name: str, recipe: dict[str, Any]) -> str:
    """What was looked at before there was a recipe; a checkpoint's selection does not show it."""
    if recipe["learner"]["readout"] == "linear":
        return ""
    return (
        "\nWhile its read-out was designed, prototypes were scored on the 5,000 held-out *training*\n"
        f"images of MNIST. {PROMPTED.get(name, 'No test image chose anything.')}"
    )


def _record(path: Path) -> dict[str, Any]:
    try:
        record: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise FileError(f"{path}: no record of how this learner was made ({error})") from error
    return record


def main(args: list[str]) -> None:
    """Ship RUN as NAME, or write all cards anew."""
    if len(args) == 2:
        print(ship(args[0], args[1]))
    elif args:
        sys.exit(__doc__)
    for name in args[1:] or zoo.names():
        print(write_card(name))


if __name__ == "__main__":
    main(sys.argv[1:])
