"""From names on the command line to entries: methods that can be made from what is at hand."""

from collections.abc import Callable, Sequence
from typing import Any

from autocl.baselines.base import Diet, method_names, needs_of
from autocl.evaluation.entry import Entry, method_entry
from autocl.names import resolve


def find_methods(
    names: Sequence[str],
    *,
    diet: Diet | None = None,
    encoder: Entry | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> list[Entry]:
    """Methods by name; "all" means all that can be made from what was given, and says which cannot.

    Args:
        names: as in the registry, or "all".
        diet: what they are fed; default: each its own.
        encoder: the learner whose encoder and images methods on frozen features use.
        say: is told what is left out.
    """
    entries = []
    known = method_names()
    for name in known if "all" in names else [resolve(n, known, "method") for n in names]:
        options: dict[str, Any] = {} if diet is None else {"diet": diet}
        if "vit" in needs_of(name) and "all" in names:
            say(f"without {name}: it works inside a vision transformer, give one with --backbone vit:FILE")
            continue
        if "encoder" in needs_of(name):
            if encoder is None and "all" in names:
                say(f"without {name}: it stands on a learner's encoder, give one with --embedding NAME")
                continue
            if encoder is not None:
                options |= {
                    "embedding": encoder.in_context.features, "load_set": encoder.load,
                    "features_of": encoder.name,
                }  # fmt: skip
        entries.append(method_entry(name, **options))
    return entries
