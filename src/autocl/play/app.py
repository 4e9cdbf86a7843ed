"""The application: page, API and guard put together."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.resources import files
from pathlib import Path

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from autocl.play.api import Api, Handler
from autocl.play.engine import Engine
from autocl.play.guard import LOOPBACK, Guard
from autocl.play.limits import Limits
from autocl.play.sessions import Sessions

PAGE = Path(str(files("autocl.play").joinpath("page")))
PUBLIC = ("/", "/docs", "/page/", "/openapi.json")
"""Shows the same to everybody."""


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
        Route("/", _file("index.html")),
        Route("/docs", _file("docs.html")),
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


def _file(name: str) -> Handler:
    async def send(request: Request) -> Response:
        return FileResponse(PAGE / name)

    return send


async def _refuse(request: Request, error: Exception) -> Response:
    """What Starlette refuses (no such address, wrong method), in the form of all other refusals."""
    assert isinstance(error, HTTPException)
    where = f"{request.method} {request.url.path[:200]}"
    return JSONResponse({"error": f"{where}: {error.detail}"}, error.status_code)


async def _broken(request: Request, error: Exception) -> Response:
    told = "the server failed; what was learned before stands. Its log says more"
    return JSONResponse({"error": told}, 500)
