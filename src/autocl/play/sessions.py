"""Sessions: all that a server knows, in memory or also in a folder that outlives it.

In the folder a session is NAME.json, written once, and NAME.safetensors: its newest state, as
`ContinualClassifier.save` writes it, replaced atomically before a request is answered. So a killed server
loses at most the request under way. Earlier moments live in memory only.
"""

import os
import re
import secrets
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from filelock import FileLock, Timeout

from autocl.errors import FileError
from autocl.files import read_tensors, remove_drafts, write_json
from autocl.play.engine import Engine
from autocl.play.guard import Limits, RefusedError
from autocl.play.session import Session

T = TypeVar("T")

NAME = re.compile(r"[A-Za-z0-9_-]{22}")
"""Name of a session: 128 random bits, which are also the permission to use it."""
SWEEP = 60.0
"""Seconds between two looks for sessions that nobody uses."""


class Sessions:
    """Sessions by name. Only the thread of the engine may use it.

    Args:
        engine: whose learner they use.
        limits: of each, and of all.
        store: a folder to keep them in; one server at a time.
        clock: the time in seconds.
    """

    def __init__(
        self,
        engine: Engine,
        limits: Limits,
        store: Path | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.engine, self.limits, self.store = engine, limits, store
        self._clock = clock
        self._live: dict[str, Session] = {}
        self._swept = clock()
        if store is not None:
            store.mkdir(parents=True, exist_ok=True)
            self._lock = FileLock(store / ".lock", thread_local=False)
            try:
                self._lock.acquire(timeout=0)
            except Timeout as error:
                raise FileError(f"{store} is in use by another autocl play: take another folder") from error
            remove_drafts(store)

    def close(self) -> None:
        """Let go of the folder."""
        if self.store is not None:
            self._lock.release()

    def create(self) -> Session:
        """A new session."""
        self._sweep()
        if self._count() >= self.limits.sessions:
            raise RefusedError(503, f"there are {self.limits.sessions:,} sessions already: try again later")
        session = Session(secrets.token_urlsafe(16), self.engine.new_classifier(), self.limits)
        session.used = self._clock()
        self._live[session.name] = session
        if self.store is not None:
            write_json(self._file(session.name, ".json"), {"learner": self.engine.learner})
        return session

    def get(self, name: str) -> Session:
        """The session of that name, from the folder if need be."""
        self._sweep()
        session = self._live.get(name) or self._stored(name)
        if session is None:
            raise RefusedError(
                404, "no such session: it has expired, was deleted, or never was; start a new one"
            )
        session.used = self._clock()
        return session

    def change(self, name: str, work: Callable[[Session], T]) -> T:
        """Let some work change a session, and write what it has become before anybody hears of it.

        Returns:
            What the work returns.
        """
        session = self.get(name)
        before = session.mark()
        result = work(session)
        try:
            self._keep(session)
        except FileError as error:
            session.undo_to(before)
            raise RefusedError(507, f"nothing was changed: {error}") from error
        self._bound()
        return result

    def delete(self, name: str) -> None:
        """Remove a session and its files."""
        self.get(name)
        self._remove(name)

    def load_state(self, session: Session, data: bytes) -> None:
        """Let a session go on from the bytes of a state file."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "state.safetensors"
            path.write_bytes(data)
            try:
                session.adopt(self.engine.open(path))
            except FileError as error:
                raise RefusedError(422, str(error).replace(f"{path}", "the state file")) from error

    def save_state(self, session: Session) -> bytes:
        """The bytes of a session's state file."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "state.safetensors"
            session.save(path)
            return path.read_bytes()

    def _keep(self, session: Session) -> None:
        if self.store is None:
            return
        file = self._file(session.name, ".safetensors")
        if session.memory is None:
            file.unlink(missing_ok=True)
        else:
            session.save(file)

    def _stored(self, name: str) -> Session | None:
        if self.store is None or not NAME.fullmatch(name) or not self._file(name, ".json").is_file():
            return None
        session = Session(name, self.engine.new_classifier(), self.limits)
        file = self._file(name, ".safetensors")
        if file.is_file():
            _, meta = read_tensors(file, kind="classifier")
            moment = meta.get("moment", "")
            session.adopt(self.engine.open(file), int(moment) if moment.isdecimal() else 1)
        self._live[name] = session
        return session

    def _bound(self) -> None:
        """Take earlier states from the sessions used longest ago, if all together are too large."""
        over = sum(session.kept_bytes for session in self._live.values()) - self.limits.all_bytes
        if over > 0:
            for session in sorted(self._live.values(), key=lambda s: s.used):
                over -= session.drop_history()
                if over <= 0:
                    return

    def _sweep(self) -> None:
        """Delete what nobody has used for too long, at most once a minute."""
        now = self._clock()
        if now - self._swept < SWEEP:
            return
        self._swept = now
        for name, session in self._live.items():
            if self.store is not None:
                with suppress(OSError):
                    os.utime(self._file(name, ".json"), (session.used, session.used))
        limit = now - 3600 * self.limits.hours
        for name in [name for name, session in self._live.items() if session.used < limit]:
            self._remove(name)
        if self.store is not None:
            for file in self.store.glob("*.json"):
                if NAME.fullmatch(file.stem) and file.stat().st_mtime < limit:
                    self._remove(file.stem)

    def _remove(self, name: str) -> None:
        self._live.pop(name, None)
        if self.store is not None:
            for suffix in (".safetensors", ".json"):
                self._file(name, suffix).unlink(missing_ok=True)

    def _count(self) -> int:
        return len(self._live) if self.store is None else len(list(self.store.glob("*.json")))

    def _file(self, name: str, suffix: str) -> Path:
        assert self.store is not None
        return self.store / f"{name}{suffix}"
