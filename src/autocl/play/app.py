"""The application: page, API and guard put together, and run on a port of this machine."""

import ipaddress
import os
import secrets
import socket
import threading
import webbrowser
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from importlib.resources import files
from pathlib import Path

import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from autocl.errors import InputError
from autocl.play.api import Api
from autocl.play.engine import Engine
from autocl.play.guard import LOOPBACK, Guard, Limits
from autocl.play.sessions import Sessions

PAGE = Path(str(files("autocl.play").joinpath("page")))
PUBLIC = ("/", "/docs", "/page/", "/openapi.json")
"""Paths, or starts of paths, that show the same to everybody and need no token."""


def make_app(
    learner: str = "everyday",
    *,
    store: Path | None = None,
    limits: Limits | None = None,
    hosts: frozenset[str] | None = LOOPBACK,
    token: str | None = None,
) -> Starlette:
    """An ASGI application for any server.

    Args:
        learner: which one people teach.
        store: a folder that sessions survive in.
        limits: what a session may use up.
        hosts: names under which the server may be called; None: any.
        token: needed by all requests but those for the page itself; None: by none.

    Raises:
        AutoclError: there is no such learner, or another server has the folder.
    """
    engine = Engine(learner)
    sessions = Sessions(engine, limits or Limits(), store)
    api = Api(engine, sessions, local=token is None)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        engine.start()
        yield
        engine.stop()
        sessions.close()

    routes = [
        *api.routes(),
        Route("/", lambda request: FileResponse(PAGE / "index.html")),
        Route("/docs", lambda request: FileResponse(PAGE / "docs.html")),
        Mount("/page", StaticFiles(directory=PAGE)),
    ]
    guard = Middleware(Guard, hosts=hosts, token=token, public=PUBLIC)
    app = Starlette(
        routes=routes,
        middleware=[guard],
        lifespan=lifespan,
        exception_handlers={HTTPException: _refuse, Exception: _broken},
    )
    app.state.api = api
    return app


async def _refuse(request: Request, error: Exception) -> Response:
    """What Starlette refuses (no such address, wrong method), in the form of all other refusals."""
    assert isinstance(error, HTTPException)
    where = f"{request.method} {request.url.path[:200]}"
    return JSONResponse({"error": f"{where}: {error.detail}"}, error.status_code)


async def _broken(request: Request, error: Exception) -> Response:
    told = "the server failed; what was learned before stands. Its log says more"
    return JSONResponse({"error": told}, 500)


TOKEN = "AUTOCL_PLAY_TOKEN"
"""Environment variable with the token; arguments could be read by everybody on the machine."""


def serve(
    learner: str,
    *,
    host: str,
    port: int,
    store: Path | None,
    limits: Limits,
    show: bool,
    say: Callable[[str], object],
) -> None:
    """Serve until Ctrl-C.

    Args:
        learner: which one people teach.
        host: address to listen on. Any but this machine's own needs a token.
        port: 0: any that is free.
        store: a folder that sessions survive in.
        limits: what a session may use up.
        show: whether to open a browser.
        say: is called with lines for the person.
    """
    local = is_loopback(host)
    token = None if local else os.environ.get(TOKEN) or secrets.token_urlsafe(24)
    listening = _listen(host, port)
    try:
        hosts = frozenset({*LOOPBACK, host}) if local else None
        app = make_app(learner, store=store, limits=limits, hosts=hosts, token=token)
        address = f"http://{_shown(host)}:{listening.getsockname()[1]}/"
        say(f"the playground is {address}{f'#token={token}' if token else ''}   (Ctrl-C ends it)")
        kept = f"are kept in {store}" if store else "end with it (--store FOLDER keeps them)"
        say(f"learner: {learner}; sessions {kept}")
        if show:
            threading.Timer(0.5, webbrowser.open, [address + (f"#token={token}" if token else "")]).start()
        config = uvicorn.Config(app, log_level="warning", access_log=False, server_header=False)
        uvicorn.Server(config).run(sockets=[listening])
    except KeyboardInterrupt:
        pass
    finally:
        listening.close()
    say(f"stopped; sessions are in {store}" if store else "stopped")


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address.

    Example:
        >>> is_loopback("127.0.0.1"), is_loopback("localhost"), is_loopback("0.0.0.0")
        (True, True, False)
    """
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _listen(host: str, port: int) -> socket.socket:
    if not 0 <= port < 1 << 16:
        raise InputError(f"there is no port {port}: --port 0 takes a free one")
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listening = socket.socket(family, socket.SOCK_STREAM)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen(128)
    except OSError as error:
        raise InputError(
            f"cannot listen on {host}, port {port}: {error}; --port 0 takes a free one"
        ) from error
    return listening


def _shown(host: str) -> str:
    """The address as a browser takes it."""
    if host in ("0.0.0.0", "::"):
        return socket.gethostname()
    return f"[{host}]" if ":" in host else host
