"""From a run to a shipped learner: its weights, and a card whose every number comes from a file.

python -m tools.ship RUN NAME      copy a run's best learner into the zoo and write its card
python -m tools.ship               write all cards anew, from results/
"""

import sys
from pathlib import Path

from tools.record import ZOO, RecipeRecord, Record, read_records, recipe_record, record_of_run, write_record
from tools.results_table import comparable
from tools.training_command import command_of

from autocl import zoo
from autocl.evaluation.bench import quick_check
from autocl.evaluation.entry import open_learner
from autocl.evaluation.protocols import PROTOCOLS
from autocl.evaluation.results import read_results
from autocl.evaluation.table import lines, markdown
from autocl.evaluation.world.measure import read_times, read_world
from autocl.evaluation.world.rivals import RIVAL_NAMES
from autocl.evaluation.world.table import markdown as markdown_of_world
from autocl.evaluation.world.table import rows_of, said, verdict, world_sets
from autocl.files import read_tensors, write_text
from autocl.learner import FastWeightLearner, Learner
from autocl.learner.find import learner_file
from autocl.training.recipe import provenance, read_recipe

PURPOSE = {
    "two-task": "Two 5-way tasks, one after the other, in either order; the paper's comprehensible case.",
    "two-task-noacl": "The same without the backward terms: it forgets the first task. For comparison only.",
    "three-task": "Three 5-way tasks, each from one of three sets: Omniglot, mini-ImageNet, FC100.",
    "two-task-fc100": "two-task with FC100 in the place of Omniglot: two tasks of photographs.",
    "two-task-fc100-noacl": "The same without the backward terms: it forgets. For comparison only.",
    "split-domain": "Streams of 2-way tasks that share two outputs (domain-incremental).",
    "split-domain-linear": "split-domain without our read-out: the paper's architecture, the same recipe.",
    "split-class-linear": "split-class without our read-out: the paper's architecture, the same recipe.",
    "split-class": "Streams of 2-way tasks in which every class has its own output, ten in all.",
    "quick": "Drawn glyphs, two tasks; tiny, for `autocl tour`.",
    "quick-noacl": "The same without the backward terms: it forgets the first task. For comparison only.",
    "prototypes": "Prototypical networks (Snell et al. 2017): nearest class mean, an encoder trained for it.",
    "gemcl": "GeMCL (Banayeeanzade et al. 2021): a Gaussian for each class under a meta-learned prior.",
    "gemcl-map": "GeMCL at the posterior's mode.",
    "oml": "OML (Javed & White 2019): a head that takes a gradient step for each demo.",
    "oml-tuned": "OML, step size and passes tuned on held-out training images of MNIST as in the paper.",
    "anml": "ANML (Beaulieu et al. 2020): OML on features that a second network gates.",
}

CHECKS = {
    **dict.fromkeys(("two-task", "two-task-noacl"), "two-task"),
    **dict.fromkeys(("two-task-fc100", "two-task-fc100-noacl"), "two-task-fc100"),
    "three-task": "diverse",
    **dict.fromkeys(("quick", "quick-noacl"), "two-task-ood"),
    **dict.fromkeys(
        ("split-domain", "split-domain-linear", "split-class", "split-class-linear"), "split-mnist"
    ),
    **dict.fromkeys(("prototypes", "gemcl", "gemcl-map", "oml", "oml-tuned", "anml"), "split-mnist"),
}
"""The table whose quick look `autocl zoo verify` compares with the card."""

RESEARCH_ONLY = {"mini_imagenet", "tiny_imagenet", "svhn"}
"""Image sets whose terms forbid commercial use (`autocl data list`)."""
IN_WORLD = ("everyday", "photos")
"""Learners of the world table with features of their own; `vectors` has the read-out of both."""


def ship(run: str | Path, name: str, *, folder: Path = ZOO) -> Path:
    """Copy the best learner of a run into the zoo, and record how it was made.

    Args:
        run: the run's folder.
        name: in the zoo.
        folder: where to.

    Returns:
        The learner's file.
    """
    run = Path(run)
    record, learner = record_of_run(run), Learner.from_pretrained(run / "best.safetensors")
    with learner_file(run) as best:
        _, made = read_tensors(best, kind="learner")
    chosen = {"step": made["step"], "validation": made["validation"]}
    meta = {"name": name, **provenance(read_recipe(run)), **chosen}
    file = learner.save_pretrained(folder / f"{name}.safetensors", meta=meta)
    write_record(name, record, folder)
    return file


def record_check(name: str, *, folder: Path = ZOO) -> None:
    """Record what the learner reaches in the quick look of its table, unless it is there."""
    record = read_records(folder)[name]
    known = record.get("check") or {}
    if name in CHECKS and (known.get("of"), known.get("table")) != (record["fingerprint"], CHECKS[name]):
        entry = open_learner(folder / f"{name}.safetensors")
        check = {"of": record["fingerprint"], **quick_check(entry, CHECKS[name])}
        write_record(name, {**record, "check": check}, folder)


def write_card(name: str, results: str | Path = "results", *, folder: Path = ZOO) -> Path:
    """Write NAME.md from its record and from all results of this very learner."""
    record = recipe_record(name, folder)
    learner = Learner.from_pretrained(folder / f"{name}.safetensors")
    c, parameters = learner.config, sum(p.numel() for p in learner.parameters())
    recipe = record["recipe"]
    curve = "\n".join(f"| {step} | {100 * score:.2f} |" for step, score in record["validation"])
    rows = "".join(f"| {d['set']} | {d['classes']} | `{d['hash'][:16]}` |\n" for d in record["data"])
    data = f"| meta-training set | classes | content |\n|---|---|---|\n{rows}\n" if rows else ""
    selected = recipe["validation"]["split"]
    chosen = (
        f"the Split-{selected} stream over 5,000 held-out *training* images of that set"
        if selected
        else "streams over validation classes of the same sets"
    )
    text = f"""# {name}

{PURPOSE.get(name, "")}

{parameters:,} parameters, {c.n_classes} outputs, input {c.height}×{c.width}×{c.channels}, state
{learner.initial_state().nbytes / 1000:.0f} KB, {_parts(learner)}, fingerprint `{learner.fingerprint()}`.
{_licence(record)}

## How it was made
Recipe `{recipe["name"]}`, seed {recipe["seed"]}, {record["steps_done"]} of {recipe["steps"]} steps of
{recipe["batch_size"]} streams, {record["seconds"] / 60:.0f} minutes of training on
two cores at most, which other work shared (validation not counted).
The checkpoint of step {record["best_step"]} was chosen by accuracy on {chosen}{_rule(record)}.{_from(record)}
`records.json` beside this card holds the whole recipe.{_again(recipe)}{_design(record)}

| step | validation accuracy (%) |
|---|---|
{curve}

{data}{_check(name, record)}## What it measured
{_measured(name, learner, Path(results))}
## Limits
Meta-trained on {", ".join(s["name"] for s in recipe["sources"])} with streams of the recipe's shape.
Other kinds of images, more tasks, other numbers of demos: measure before you rely on it (`autocl eval`).
"""
    path = folder / f"{name}.md"
    write_text(path, text)
    return path


def _check(name: str, record: Record) -> str:
    """What `autocl zoo verify` compares with."""
    if not (check := record.get("check")):
        return ""
    rows = "".join(f"| {cell} | {value:.1f} |\n" for cell, value in check["cells"].items())
    return f"""## To check it
`autocl zoo verify {name}` takes a quick look at table {check["table"]} (2 runs, 200 queries a task) and
compares it with these numbers:

| cell | accuracy (%) |
|---|---:|
{rows}
"""


def fill_card(name: str, results: str | Path = "results", *, folder: Path = ZOO) -> Path:
    """Put what results say of a learner that a tool made into its card; the rest is written by hand."""
    path, heading = folder / f"{name}.md", "## What it measured\n"
    learner = Learner.from_pretrained(folder / f"{name}.safetensors")
    before, rest = path.read_text(encoding="utf-8").split(heading)
    after = rest[rest.index("\n## ") :]
    shown = IN_WORLD if name == "vectors" else (name,)
    told = "\n".join(t for t in (_in_world(other, Path(results), folder) for other in shown) if t)
    told = told or _measured(name, learner, Path(results))
    write_text(path, f"{before}{heading}{told.rstrip()}\n{after}")
    return path


def _in_world(name: str, results: Path, folder: Path) -> str:
    """Rows of both world tables, and what follows from them; nothing of other weights under the same name."""
    fingerprint = Learner.from_pretrained(folder / f"{name}.safetensors").fingerprint()
    texts = []
    for split in ("validation", "test"):
        measured = [m for m in read_world(results) if m.split == split and m.features == name]
        mine = {m.identity.get("fingerprint") for m in measured if m.entry == name}
        if mine != {fingerprint}:
            continue
        rows = rows_of(comparable(measured, RIVAL_NAMES))
        draws = f"{rows[0].mean.runs} draws of each of {len(rows[0].cells)} cells"
        sentences = said(verdict(rows, name, RIVAL_NAMES), read_times(results, split, name))
        texts.append(
            f"{world_sets(split).capitalize()}; {draws}\n"
            f"(`autocl bench world --split {split} --learner {name}`).\n\n"
            f"{markdown_of_world(rows, {})}\n" + "".join(f"- {line}\n" for line in sentences)
        )
    return "\n".join(texts)


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


def _parts(learner: Learner) -> str:
    if isinstance(learner, FastWeightLearner):
        return f"mixer `{learner.config.mixer}`, read-out `{learner.config.readout}`"
    return f"read-out `{learner.config.readout.kind}`"


def _licence(record: Record) -> str:
    """What may be done with the weights, as far as that can be said."""
    recipes = [record["recipe"], *record["recipe"]["stages"]]
    restricted = sorted({s["name"] for recipe in recipes for s in recipe["sources"]} & RESEARCH_ONLY)
    if not restricted:
        return "Licence: MIT, as are the images it was meta-trained on."
    return (
        f"Licence: MIT as far as it is ours to give. It was meta-trained on {' and '.join(restricted)},\n"
        "whose terms allow non-commercial research and education only: see LICENCES.txt beside this card."
    )


def _from(record: Record) -> str:
    stages = "".join(
        f"\nBefore it: recipe `{stage['recipe']}`, {stage['steps_done']} steps, "
        f"{stage['seconds'] / 60:.0f} minutes; best at step {stage['best_step']}."
        for stage in record.get("stages", [])
    )
    if not (start := record.get("started_from")):
        return stages
    return (
        f"{stages}\nIt started from a learner of recipe `{start['recipe']}`, fingerprint "
        f"`{start['fingerprint']}` (`{record['recipe']['init_from']}`)."
    )


def _rule(record: Record) -> str:
    # Learners shipped before this was recorded were chosen as their recipe says.
    rule = record.get("rule", record["recipe"]["validation"]["rule"])
    return "" if rule == "average" else ", each task asked right after it was learned"


def _again(recipe: RecipeRecord) -> str:
    """The command that makes it again; from nothing where that is another one."""
    start, command = recipe["init_from"], command_of(recipe)
    if not start:
        return f" From nothing, by one command:\n\n    {command}\n"
    return (
        f" From the shipped `{start}`:\n\n    {command}\n\n"
        f"The same from nothing, with `{start}` as a first stage:\n\n    {command} --from-nothing\n"
    )


def _tuned(record: Record) -> str:
    if not (tuning := record.get("tuning")):
        return ""
    chosen = ", ".join(f"{name} {value}" for name, value in tuning["chosen"].items())
    return f"\nThen `python -m tools.tune_oml` chose {chosen} on {tuning['tuned_on']}."


def _design(record: Record) -> str:
    """What was looked at beside the validation that chose the checkpoint."""
    if record["recipe"]["learner"]["readout"] not in ("ridge", "kernel"):
        return _tuned(record)
    return (
        "\nWhile its read-out was designed, prototypes were scored on the 5,000 held-out *training*\n"
        "images of MNIST. No test image chose anything."
    )


def main(args: list[str]) -> None:
    """Ship RUN as NAME, or write all cards anew."""
    if len(args) == 2:
        print(ship(args[0], args[1]))
    elif args:
        sys.exit(__doc__)
    for name in args[1:] or zoo.names():
        if "recipe" in zoo.record(name):
            record_check(name)
            print(write_card(name))
        else:  # a tool of its own made it
            print(fill_card(name))


if __name__ == "__main__":
    main(sys.argv[1:])
