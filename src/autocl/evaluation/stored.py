"""Entries by the names under which results have them, so that every line can be made again."""

from collections.abc import Callable, Mapping, Sequence

from autocl import zoo
from autocl.baselines.base import Diet, method_names
from autocl.errors import AutoclError, InputError
from autocl.evaluation.entry import Entry, find_methods, open_learner
from autocl.evaluation.protocol import Protocol
from autocl.evaluation.protocols.backbone import STATISTICS, Settings, backbone_entries, sized

FEATURES = "features of "


def entry_named(name: str, usual: Mapping[str, Settings] = STATISTICS) -> Entry:
    """The entry that stands in tables under this name; an AutoclError when it cannot be made here.

    Its options behind a backbone are the table's `usual` ones.

    Example:
        >>> entry_named("ewc (demos diet)").name
        'ewc (demos diet)'
    """
    called, _, facts = name.partition(" (")
    told = facts.removesuffix(")").split(", ") if facts else []
    features = next((f.removeprefix(FEATURES) for f in told if f.startswith(FEATURES)), "")
    diets: dict[str, Diet] = {"demos diet": "demos", "full diet": "full"}
    diet = next((diets[f] for f in told if f in diets), None)
    if not told and called in zoo.names():
        return open_learner(called)
    if sized(called)[0] not in (*method_names(), *zoo.names()):
        raise InputError(f"{called} does not ship: docs/paper.md and docs/notebook.md say what made it")
    if not features or (features in zoo.names() and not open_learner(features).trained.backbone):
        encoder = open_learner(features) if features else None
        return find_methods((called,), diet=diet, encoder=encoder)[0]
    if called in zoo.names():
        return backbone_entries((features,), learners=(called,))[0]
    return backbone_entries((features,), methods={called: usual.get(called, {})}, diet=diet)[0]


def stored_entries(
    protocol: Protocol, names: Sequence[str], *, say: Callable[[str], None] = lambda _: None
) -> list[Entry]:
    """The entries of these names in a table, as far as they can be made here; it says which cannot."""
    entries = []
    for name in names:
        try:
            entries.append(entry_named(name, protocol.statistics or STATISTICS))
        except AutoclError as reason:
            say(f"the lines of {name} stay as they are: {reason}")
    return entries
