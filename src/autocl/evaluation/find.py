"""From names on the command line to subjects: methods that can be made from what is at hand."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from autocl.errors import InputError
from autocl.evaluation.subject import Subject, method_subject
from autocl.methods.base import Diet, method_names
from autocl.names import resolve


def find_methods(
    names: Sequence[str],
    *,
    diet: Diet | None = None,
    encoder: Subject | None = None,
    rivals: Path | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> list[Subject]:
    """Methods by name; "all" means all that can be made from what was given, and says which cannot.

    Args:
        names: as in the registry, or "all".
        diet: what they are fed; default: each its own.
        encoder: the learner whose encoder and images methods on frozen features use.
        rivals: folder with meta-trained rivals.
        say: is told what is left out.
    """
    subjects = []
    known = method_names()
    for name in known if "all" in names else [resolve(n, known, "method") for n in names]:
        common: dict[str, Any] = {} if diet is None else {"diet": diet}
        tries: list[dict[str, Any]] = [{}]
        if encoder is not None:
            tries.append(
                {"embedding": encoder.embedding, "load_set": encoder.load, "features_of": encoder.name}
            )
        if file := _rival_file(name, rivals):
            tries = [{"rival": file}]
        reasons: list[InputError] = []
        for extra in tries:
            try:
                subjects.append(method_subject(name, **common, **extra))
                break
            except InputError as error:
                reasons.append(error)
        else:
            if "all" not in names:
                raise reasons[0]
            say(f"without {name}: {reasons[0]}")
    return subjects


def _rival_file(name: str, folder: Path | None) -> Path | None:
    """What a folder of rivals holds for a method."""
    places = [] if folder is None else [folder / f"{name}.safetensors", folder / name / "best.safetensors"]
    return next((place for place in places if place.is_file()), None)
