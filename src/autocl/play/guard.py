"""Guard: who may ask, and what a browser may do with the answer.

A server on this machine is within reach of every page the browser shows. Three checks keep those out: the
name by which the server is called must be its own (a foreign name that resolves to 127.0.0.1 is an attack), a
request that a page sends must come from the server's own page, and on any other address than this machine's a
token is needed. `Limits` bound what those who may ask can use up.
"""

import hmac
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import SplitResult, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from autocl.errors import AutoclError

LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})

HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' blob: data:; media-src 'self' blob:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(self), microphone=(), geolocation=()",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}
"""On every answer: the page may load and call nothing but this server, and nobody may frame it."""


class Guard:
    """Middleware around the application.

    Args:
        app: what is guarded.
        hosts: names under which the server may be called; None: any, which only a token makes safe.
        token: what `Authorization: Bearer …` must say; None: nothing.
        public: paths, or starts of paths that end in "/", which show nothing and need no token.
    """

    def __init__(
        self, app: ASGIApp, *, hosts: frozenset[str] | None, token: str | None, public: Iterable[str]
    ) -> None:
        self._app, self._hosts, self._token = app, hosts, token
        self._public = tuple(public)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through, or answer it here."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
            await send(message)

        refusal = self._refusal(Headers(scope=scope), scope["path"])
        if refusal is None:
            await self._app(scope, receive, guarded)
        else:
            status, message = refusal
            await JSONResponse({"error": message}, status)(scope, receive, guarded)

    def _refusal(self, headers: Headers, path: str) -> tuple[int, str] | None:
        host = headers.get("host", "")
        if self._hosts is not None and _split(f"//{host}").hostname not in self._hosts:
            return 403, "called by a name that is not this server's: use the address it printed at its start"
        public = any(path == p or (p.endswith("/") and p != "/" and path.startswith(p)) for p in self._public)
        origin = headers.get("origin")
        foreign = origin is not None and _split(origin).netloc != host
        if foreign or (not public and headers.get("sec-fetch-site", "none") not in ("same-origin", "none")):
            return 403, "a page of another site may not use this server"
        if self._token is not None and not public:
            given = headers.get("authorization", "").removeprefix("Bearer ")
            if not hmac.compare_digest(given.encode(), self._token.encode()):
                return 401, "this server needs its token: open the address that it printed at its start"
        return None


def _split(url: str) -> SplitResult:
    """The parts of an address; empty ones where it is none.

    Example:
        >>> _split("//[::1]:80").hostname, _split("http://localhost:8642").netloc, _split("//bad[").netloc
        ('::1', 'localhost:8642', '')
    """
    try:
        return urlsplit(url)
    except ValueError:
        return urlsplit("")


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
