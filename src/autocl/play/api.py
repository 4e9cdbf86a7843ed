"""The API: what can be asked over HTTP. `/docs` shows it to people, `/openapi.json` to programs."""

import asyncio
import base64
from collections.abc import Callable
from dataclasses import asdict

import numpy as np
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from autocl import __version__
from autocl.errors import AutoclError
from autocl.estimator.inputs import Encoded
from autocl.pictures import Pixels
from autocl.play import forms
from autocl.play.engine import Engine
from autocl.play.forms import Answer, Endpoint, Handler, Summary
from autocl.play.guard import Limits, RefusedError
from autocl.play.pictures import portrait, tour_stream
from autocl.play.session import Session
from autocl.play.sessions import Sessions

DECODING = 2
"""Requests whose pictures are decoded at the same time."""


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

    def endpoints(self) -> list[Endpoint]:
        """All of the API."""
        one, file, image = "/sessions/{session}", "application/octet-stream", "image/*"
        return [
            Endpoint("GET", "/health", self.health),
            Endpoint("GET", "/openapi.json", self.openapi),
            Endpoint("GET", "/tour", self.tour),
            Endpoint("POST", "/sessions", self.create, gives=Summary, status=201),
            Endpoint("GET", one, self.show, gives=Summary),
            Endpoint("DELETE", one, self.delete, gives=None, status=204),
            Endpoint(
                "POST", f"{one}/learn", self.learn, takes=(forms.Lesson, image),
                query=("label", "features"), gives=forms.Learned,
            ),
            Endpoint(
                "POST", f"{one}/predict", self.predict, takes=(forms.Question, image),
                query=("features",), gives=forms.Answers,
            ),
            Endpoint("GET", f"{one}/state", self.get_state, gives=file),
            Endpoint("PUT", f"{one}/state", self.put_state, takes=(file,), gives=Summary),
            Endpoint("GET", f"{one}/picture", self.picture, gives="image/png"),
            Endpoint("POST", f"{one}/back", self.back, takes=(forms.ToMoment,), gives=Summary),
            Endpoint("POST", f"{one}/forget", self.forget, takes=(forms.Named,), gives=Summary),
            Endpoint("POST", f"{one}/rename", self.rename, takes=(forms.Renamed,), gives=Summary),
        ]  # fmt: skip

    def routes(self) -> list[Route]:
        """Starlette's routes."""
        return [Route(e.path, _told(e.handler), methods=[e.method]) for e in self.endpoints()]

    async def health(self, request: Request) -> Response:
        """Whether the learner is warm; what it is; limits."""
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
        """This description."""
        return JSONResponse(forms.document(self.endpoints(), self.limits))

    async def tour(self, request: Request) -> Response:
        """Digits, two classes at a time: to teach, and to hold back."""
        return JSONResponse(await run_in_threadpool(tour_stream))

    async def create(self, request: Request) -> Response:
        """Start a session."""
        return JSONResponse(await self.engine.run(lambda _: _summary(self.sessions.create())), 201)

    async def show(self, request: Request) -> Response:
        """What a session knows."""
        name = request.path_params["session"]
        return JSONResponse(await self.engine.run(lambda _: _summary(self.sessions.get(name))))

    async def delete(self, request: Request) -> Response:
        """End a session."""
        name = request.path_params["session"]
        await self.engine.run(lambda _: self.sessions.delete(name))
        return Response(status_code=204)

    async def learn(self, request: Request) -> Response:
        """Learn pictures, one after the other, all or none: JSON, or one image file with ?label=NAME.

        With &features=1, or in JSON, the answer has their features, too.
        """
        images, labels, features = await forms.read_lesson(request, self.limits)
        pictures = await self._decoded(images)
        name = request.path_params["session"]

        def work(seen: Encoded) -> forms.Learned:
            before = self.sessions.change(name, lambda session: session.learn(seen, labels))
            return {"before": _answers(before, seen, features), **_summary(self.sessions.get(name))}

        return JSONResponse(await self.engine.run(work, pictures))

    async def predict(self, request: Request) -> Response:
        """Ask about pictures: JSON, or one image file. Nothing changes.

        With ?features=1, or in JSON, the answer has their features, too.
        """
        images, features, top = await forms.read_question(request, self.limits)
        pictures = await self._decoded(images)
        name = request.path_params["session"]

        def work(seen: Encoded) -> forms.Answers:
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
        """Go on from such a file of the state."""
        data = await forms.read_body(request, self.limits)
        return JSONResponse(await self._on(request, lambda s: self.sessions.load_state(s, data)))

    async def picture(self, request: Request) -> Response:
        """The state, drawn."""
        name = request.path_params["session"]
        memory = await self.engine.run(lambda _: self.sessions.get(name).memory)
        return Response(await run_in_threadpool(portrait, memory), media_type="image/png")

    async def back(self, request: Request) -> Response:
        """Go to another moment."""
        asked = await forms.read_form(request, self.limits, forms.ToMoment)
        return JSONResponse(await self._on(request, lambda s: s.go_to(asked["moment"])))

    async def forget(self, request: Request) -> Response:
        """Forget a class exactly, or refuse (409)."""
        asked = await forms.read_form(request, self.limits, forms.Named)
        return JSONResponse(await self._on(request, lambda s: s.forget(asked["label"])))

    async def rename(self, request: Request) -> Response:
        """Rename a class."""
        asked = await forms.read_form(request, self.limits, forms.Renamed)
        work = lambda s: s.rename(asked["label"], asked["to"])  # noqa: E731
        return JSONResponse(await self._on(request, work))

    async def _decoded(self, images: list[bytes]) -> list[Pixels]:
        """Pixels of image files."""
        async with self._decoding:
            return await run_in_threadpool(forms.decode_all, self.engine, images, self.limits)

    async def _on(self, request: Request, work: Callable[[Session], None]) -> Summary:
        """Change the session that a request names; returns what it knows then."""
        name = request.path_params["session"]

        def done(_: Encoded) -> Summary:
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


def _summary(session: Session) -> Summary:
    return {
        "session": session.name,
        "classes": [{"label": label, "examples": n} for label, n in session.classes.items()],
        "moment": session.moment,
        "moments": session.moments,
        "state_bytes": session.state_bytes,
    }


def _answers(found: list[Answer], seen: Encoded, features: bool, top: int | None = None) -> list[Answer]:
    """Their first few labels only; with features of unit length, little-endian float32, where wanted."""
    for answer, row in zip(found, seen.features.float().cpu().numpy(), strict=True):
        answer["answers"] = answer["answers"][:top]
        if features:
            unit = row / max(float(np.linalg.norm(row)), 1e-12)
            answer["features"] = base64.b64encode(unit.astype("<f4").tobytes()).decode("ascii")
    return found
