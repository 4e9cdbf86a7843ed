"""The API: what can be asked over HTTP. `/docs` shows it to people, `/openapi.json` to programs."""

import asyncio
import base64
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from typing import Any

import numpy as np
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from autocl import __version__
from autocl.errors import AutoclError
from autocl.estimator.inputs import Encoded
from autocl.pictures import Pixels
from autocl.play import requests as body
from autocl.play.engine import Engine
from autocl.play.guard import Limits, RefusedError
from autocl.play.openapi import document
from autocl.play.portrait import portrait
from autocl.play.session import Answer, Session
from autocl.play.sessions import Sessions
from autocl.play.tour import tour_stream

DECODING = 2
"""Requests whose pictures are decoded at the same time."""

Handler = Callable[[Request], Awaitable[Response]]


class Api:
    """Handlers of all requests.

    Args:
        engine: learns and answers.
        sessions: what was learned.
        local: whether only this machine can reach the server.
    """

    def __init__(self, engine: Engine, sessions: Sessions, *, local: bool) -> None:
        self.engine, self.sessions, self.local = engine, sessions, local
        self.limits: Limits = sessions.limits
        # The largest pictures take hundreds of megabytes while they are decoded: few at a time.
        self._decoding = asyncio.Semaphore(DECODING)

    def routes(self) -> list[Route]:
        """All of the API."""
        one = "/sessions/{session}"
        table: list[tuple[str, str, Handler]] = [
            ("GET", "/health", self.health),
            ("GET", "/openapi.json", self.openapi),
            ("GET", "/tour", self.tour),
            ("POST", "/sessions", self.create),
            ("GET", one, self.show),
            ("DELETE", one, self.delete),
            ("POST", f"{one}/learn", self.learn),
            ("POST", f"{one}/predict", self.predict),
            ("GET", f"{one}/state", self.get_state),
            ("PUT", f"{one}/state", self.put_state),
            ("GET", f"{one}/picture", self.picture),
            ("POST", f"{one}/back", self.back),
            ("POST", f"{one}/forget", self.forget),
            ("POST", f"{one}/rename", self.rename),
        ]
        return [Route(path, _told(handler), methods=[method]) for method, path, handler in table]

    async def health(self, request: Request) -> Response:
        """Whether the learner is warm, what it is, and the limits."""
        return JSONResponse(
            {
                "ready": self.engine.ready.is_set(),
                "learner": self.engine.learner,
                "version": __version__,
                "local": self.local,
                "stored": self.sessions.store is not None,
                "limits": asdict(self.limits),
            }
        )

    async def openapi(self, request: Request) -> Response:
        """The description of all this for programs."""
        return JSONResponse(document(self.limits))

    async def tour(self, request: Request) -> Response:
        """Digits, two classes at a time: what to teach and what to hold back."""
        return JSONResponse(await run_in_threadpool(tour_stream))

    async def create(self, request: Request) -> Response:
        """A new session."""
        return JSONResponse(await self.engine.run(lambda _: _summary(self.sessions.create())), 201)

    async def show(self, request: Request) -> Response:
        """What a session knows."""
        name = request.path_params["session"]
        return JSONResponse(await self.engine.run(lambda _: _summary(self.sessions.get(name))))

    async def delete(self, request: Request) -> Response:
        """End of a session."""
        name = request.path_params["session"]
        await self.engine.run(lambda _: self.sessions.delete(name))
        return Response(status_code=204)

    async def learn(self, request: Request) -> Response:
        """Learn labelled pictures; says what was believed of each just before."""
        images, labels, features = await body.read_lesson(request, self.limits)
        pictures = await self._decoded(images)
        name = request.path_params["session"]

        def work(seen: Encoded) -> dict[str, Any]:
            before = self.sessions.change(name, lambda session: session.learn(seen, labels))
            return {"before": _answers(before, seen, features), **_summary(self.sessions.get(name))}

        return JSONResponse(await self.engine.run(work, pictures))

    async def predict(self, request: Request) -> Response:
        """What pictures show."""
        images, features, top = await body.read_question(request, self.limits)
        pictures = await self._decoded(images)
        name = request.path_params["session"]

        def work(seen: Encoded) -> dict[str, Any]:
            session = self.sessions.get(name)
            found = _answers(session.predict(seen), seen, features, top)
            return {"answers": found, "moment": session.moment}

        return JSONResponse(await self.engine.run(work, pictures))

    async def get_state(self, request: Request) -> Response:
        """The state as a file for `ContinualClassifier.load`."""
        name = request.path_params["session"]
        data = await self.engine.run(lambda _: self.sessions.save_state(self.sessions.get(name)))
        return Response(data, media_type="application/octet-stream")

    async def put_state(self, request: Request) -> Response:
        """Go on from such a file."""
        data = await body.read_body(request, self.limits)
        return JSONResponse(await self._on(request, lambda s: self.sessions.load_state(s, data)))

    async def picture(self, request: Request) -> Response:
        """The state, drawn."""
        name = request.path_params["session"]
        memory = await self.engine.run(lambda _: self.sessions.get(name).memory)
        return Response(await run_in_threadpool(portrait, memory), media_type="image/png")

    async def back(self, request: Request) -> Response:
        """Go to another moment."""
        asked = await body.read_form(request, self.limits, body.ToMoment)
        return JSONResponse(await self._on(request, lambda s: s.go_to(asked["moment"])))

    async def forget(self, request: Request) -> Response:
        """Forget a class."""
        asked = await body.read_form(request, self.limits, body.Named)
        return JSONResponse(await self._on(request, lambda s: s.forget(asked["label"])))

    async def rename(self, request: Request) -> Response:
        """Rename a class."""
        asked = await body.read_form(request, self.limits, body.Renamed)
        work = lambda s: s.rename(asked["label"], asked["to"])  # noqa: E731
        return JSONResponse(await self._on(request, work))

    async def _decoded(self, images: list[bytes]) -> list[Pixels]:
        """Pixels of image files."""
        async with self._decoding:
            return await run_in_threadpool(body.decode_all, self.engine, images, self.limits)

    async def _on(self, request: Request, work: Callable[[Session], None]) -> dict[str, Any]:
        """Change the session that a request names; returns what it knows then."""
        name = request.path_params["session"]

        def done(_: Encoded) -> dict[str, Any]:
            self.sessions.change(name, work)
            return _summary(self.sessions.get(name))

        return await self.engine.run(done)


def _told(handler: Handler) -> Handler:
    """A handler whose errors are answers that say what to do."""

    async def told(request: Request) -> Response:
        try:
            return await handler(request)
        except RefusedError as error:
            return JSONResponse({"error": str(error)}, error.status)
        except AutoclError as error:
            return JSONResponse({"error": str(error)}, 422)

    return told


def _summary(session: Session) -> dict[str, Any]:
    classes = [{"label": label, "examples": n} for label, n in session.classes.items()]
    return {
        "session": session.name,
        "classes": classes,
        "moment": session.moment,
        "moments": session.moments,
        "state_bytes": session.state_bytes,
    }


def _answers(
    found: list[Answer], seen: Encoded, features: bool, top: int | None = None
) -> list[dict[str, Any]]:
    rows = seen.features.float().cpu().numpy()
    return [
        {
            "answers": [{"label": label, "probability": share} for label, share in answer.answers[:top]],
            "novelty": answer.novelty,
            "novelty_by": answer.novelty_by,
            **({"features": _packed(row)} if features else {}),
        }
        for answer, row in zip(found, rows, strict=True)
    ]


def _packed(row: np.ndarray[Any, np.dtype[np.float32]]) -> str:
    """Features of unit length as base64 of little-endian float32."""
    unit = row / max(float(np.linalg.norm(row)), 1e-12)
    return base64.b64encode(unit.astype("<f4").tobytes()).decode("ascii")
