"""Limits on what strangers may use up of a server, and its refusals."""

import unicodedata
from dataclasses import dataclass

from autocl.errors import AutoclError


class RefusedError(AutoclError):
    """A request that is not served, with the HTTP status that says so."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Bounds of one server. The page and `GET /health` show them."""

    hours: float = 24.0
    """A session that nobody has used for so long is deleted."""
    sessions: int = 1000
    classes: int = 1000
    """Classes of one session."""
    state_bytes: int = 64 << 20
    """Size of one session's newest state."""
    history_bytes: int = 64 << 20
    """Size of the earlier states that one session keeps for going back; the oldest go first."""
    all_bytes: int = 2 << 30
    """Size of all states of all sessions in memory; beyond it, those that were used longest ago lose their
    earlier states."""
    body_bytes: int = 32 << 20
    """Size of one request."""
    pixels: int = 1 << 26
    """Pixels of one picture: more than any telephone takes; refused before it is unpacked."""
    pictures: int = 256
    """Pictures in one request: others wait for so long."""
    label: int = 100
    """Characters of a class's name."""


def clean_label(label: str, limits: Limits) -> str:
    """A class's name as it is kept: in one form of Unicode, without spaces around it.

    Example:
        >>> clean_label("  tabby cat ", Limits())
        'tabby cat'
    """
    label = unicodedata.normalize("NFC", label).strip()
    if not label:
        raise RefusedError(422, "a class needs a name")
    if len(label) > limits.label:
        raise RefusedError(422, f"the name of a class has {len(label):,} characters: at most {limits.label}")
    if any(unicodedata.category(c) in ("Cc", "Cs") for c in label):
        raise RefusedError(422, "the name of a class holds control characters: use letters, digits, signs")
    return label
