"""`autocl zoo`: what ships, and whether it still does what its card says."""

from typing import Annotated

from rich.console import Console
from tyro.conf import Positional, arg

from autocl import zoo as shipped
from autocl.cli.terminal import run, say, tabulate
from autocl.errors import AutoclError, InputError
from autocl.learner.find import find_learner

Name = Annotated[Positional[str | None], arg(metavar="[NAME]", help_behavior_hint="")]
Names = Annotated[Positional[tuple[str, ...]], arg(metavar="[NAME …]", help_behavior_hint="")]


def zoo(name: Name = None, /) -> None:
    """List the learners that ship with the package, or print the model card of one.

    autocl zoo verify NAME measures one again and compares it with its card.

    Args:
        name: of a learner. Its card says how it was made, what it measured and what it cannot do.

    Examples:
        autocl zoo
        autocl zoo everyday
        autocl zoo verify split-class
    """
    if name is not None:
        print(shipped.card(name))
        return
    rows = []
    for each in shipped.names():
        learner = find_learner(each)
        c = learner.config
        size = sum(p.numel() for p in learner.parameters())
        state = f"{learner.initial_state().nbytes / 1000:.0f} KB"
        takes = "vectors" if learner.takes_vectors else f"{c.height}×{c.width}×{c.channels}"
        rows.append((each, "any" if learner.grows else str(c.n_classes), takes, f"{size:,}", state))
    headings = ("name", "outputs", "input", "parameters", "state")
    console = Console()
    if rows:
        console.print(tabulate(headings, rows, right=("outputs", "parameters", "state")))
    say("autocl zoo NAME prints a learner's card" if rows else "no learner ships with this checkout")


def verify(names: Names = (), /) -> None:
    """Measure shipped learners again and compare them with their cards.

    Two runs of a table with 200 queries a task, the same streams as for the card. A cell agrees within one
    point. The command fails when one differs.

    Args:
        names: of learners. Default: all whose card has such a check.

    Examples:
        autocl zoo verify split-class
        autocl zoo verify
    """
    from autocl.evaluation.bench import verify as compare
    from autocl.evaluation.entry import open_learner

    checks = {name: shipped.record(name).get("check") for name in names or shipped.names()}
    if missing := [name for name in names if checks[name] is None]:
        known = ", ".join(n for n in shipped.names() if shipped.record(n).get("check")) or "none"
        raise InputError(
            f"the card of {', '.join(missing)} has no check to compare with; those with one: {known}"
        )
    console, different = Console(), []
    for name, check in checks.items():
        if check is None:
            continue
        entry = open_learner(name)
        if entry.fingerprint != shipped.record(name)["fingerprint"]:
            say(f"{name}: the weights are not those of the card (fingerprint {entry.fingerprint})")
            different.append(name)
        compared = compare(entry, check)
        rows = [
            (c.cell, f"{c.card:.1f}", "–" if c.now is None else f"{c.now:.1f}", c.status) for c in compared
        ]
        say(f"{name}, table {check['table']}, 2 runs, 200 queries a task:")
        console.print(tabulate(("cell", "card", "now", "status"), rows, right=("card", "now")))
        for reason in dict.fromkeys(c.reason for c in compared if c.reason):
            say(f"  {reason}")
        different += [name] * any(c.status == "differs" for c in compared)
    if different:
        raise AutoclError(f"not as their cards say: {', '.join(dict.fromkeys(different))}")


def parse(args: list[str]) -> None:
    """Run `autocl zoo` or `autocl zoo verify` with these arguments."""
    if args[:1] == ["verify"]:
        run(verify, args[1:], "autocl zoo verify")
    else:
        run(zoo, args, "autocl zoo")
