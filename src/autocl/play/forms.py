"""Forms of the JSON that is sent and answered: requests are read by them, OpenAPI 3.1 describes them.

A request is JSON of a stated form, or one image file as it is.
"""

import base64
import binascii
import inspect
import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import (
    Annotated,
    Any,
    Literal,
    NotRequired,
    TypedDict,
    TypeVar,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

from starlette.requests import Request
from starlette.responses import Response

from autocl import __version__
from autocl.errors import FileError, InputError
from autocl.pictures import Pixels
from autocl.play.engine import Engine
from autocl.play.guard import Limits, RefusedError
from autocl.typed_json import parse_json

Json = dict[str, Any]
Handler = Callable[[Request], Awaitable[Response]]
Image = Annotated[str, "base64 of an image file, or a data: address"]
WithFeatures = Annotated[bool, "answer with the features, too"]


class Example(TypedDict):
    """A labelled picture."""

    label: str
    image: Image


class Lesson(TypedDict):
    """Body of `learn`."""

    examples: list[Example]
    features: NotRequired[WithFeatures]


class Question(TypedDict):
    """Body of `predict`."""

    images: list[Image]
    features: NotRequired[WithFeatures]
    top: NotRequired[Annotated[int, "how many labels to answer with; default: all"]]


class ToMoment(TypedDict):
    """Body of `back`."""

    moment: int


class Named(TypedDict):
    """Body of `forget`."""

    label: str


class Renamed(Named):
    """Body of `rename`."""

    to: str


class Likely(TypedDict):
    """A label with its probability."""

    label: str
    probability: float


class Answer(TypedDict):
    """What the learner says of one picture."""

    answers: Annotated[list[Likely], "best first; empty before the first example"]
    novelty: Annotated[float, "0: like what was shown … 1: unlike all of it"]
    novelty_by: Annotated[
        Literal["learner", "probability"],
        "the learner's own measure; or, where it has none, one minus the highest probability, which an "
        "unknown class need not raise",
    ]
    features: NotRequired[
        Annotated[str, "on request: the learner's features, of unit length, base64 of float32"]
    ]


class Answers(TypedDict):
    """Answer of `predict`."""

    answers: list[Answer]
    moment: int


class KnownClass(TypedDict):
    """A class of a session."""

    label: str
    examples: int


class Summary(TypedDict):
    """What a session knows."""

    session: Annotated[str, "its name, and the permission to use it"]
    classes: list[KnownClass]
    moment: Annotated[int, "changes so far"]
    moments: Annotated[list[int], "moments whose state is kept: `back` goes there"]
    state_bytes: int


class Learned(Summary):
    """Answer of `learn`."""

    before: Annotated[list[Answer], "what was believed of each picture just before"]


class Refusal(TypedDict):
    """Answer to what is refused."""

    error: Annotated[str, "what is wrong, and what to do"]


@dataclass(frozen=True)
class Endpoint:
    """A request that the server answers."""

    method: str
    path: str
    handler: Handler
    """Its docstring describes the request."""
    takes: tuple[Any, ...] = ()
    """Body: forms of JSON, or types of files such as image/*."""
    query: tuple[str, ...] = ()
    gives: Any = Json
    """Form of the JSON it answers with, or the type of a file; None: nothing."""
    status: int = 200


def document(endpoints: Sequence[Endpoint], limits: Limits) -> Json:
    """The description of the API."""
    named: Json = {}
    refused = {"4XX": {"description": "refused", "content": _content([Refusal], named)}}
    paths: dict[str, Json] = {}
    for endpoint in endpoints:
        done: Json = {"description": "done"}
        if endpoint.gives is not None:
            done["content"] = _content([endpoint.gives], named)
        places = [(name, "path") for name in re.findall(r"{(\w+)}", endpoint.path)]
        places += [(name, "query") for name in endpoint.query]
        described: Json = {
            "summary": inspect.getdoc(endpoint.handler),
            "parameters": [
                {"name": name, "in": place, "required": place == "path", "schema": {"type": "string"}}
                for name, place in places
            ],
            "responses": {str(endpoint.status): done, **refused},
        }
        if endpoint.takes:
            described["requestBody"] = {"required": True, "content": _content(endpoint.takes, named)}
        paths.setdefault(endpoint.path, {})[endpoint.method.lower()] = described
    token = {
        "type": "http",
        "scheme": "bearer",
        "description": "only where the server is bound to another address than this machine's",
    }
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "autocl play",
            "version": __version__,
            "description": 'Teach a continual learner over HTTP. Errors are {"error": what, and what to do}. '
            f"Limits: {limits.body_bytes:,} bytes and {limits.pictures} pictures a request, "
            f"{limits.pixels:,} pixels a picture, {limits.classes:,} classes a session; unused sessions "
            f"end after {limits.hours:g} hours.",
        },
        "paths": paths,
        "components": {"schemas": named, "securitySchemes": {"token": token}},
        "security": [{}, {"token": []}],
    }


def _content(forms: Sequence[Any], named: Json) -> Json:
    """Bodies of the forms or types of files; TypedDicts are added to `named`."""
    file = {"type": "string", "contentMediaType": "application/octet-stream"}
    return {
        form if isinstance(form, str) else "application/json": {
            "schema": file if isinstance(form, str) else _schema(form, named)
        }
        for form in forms
    }


def _schema(form: Any, named: Json) -> Json:
    """The schema of an annotation: a reference where it has a name."""
    kind, parts = get_origin(form) or form, get_args(form)
    if kind is Annotated:
        return {**_schema(parts[0], named), "description": parts[1]}
    if kind is NotRequired:
        return _schema(parts[0], named)
    if kind is list:
        return {"type": "array", "items": _schema(parts[0], named)}
    if kind is Literal:
        return {"enum": list(parts)}
    if is_typeddict(form):
        hints = get_type_hints(form, include_extras=True)
        named[form.__name__] = {
            "type": "object",
            "description": inspect.getdoc(form),
            "required": sorted(form.__required_keys__),
            "properties": {name: _schema(hint, named) for name, hint in hints.items()},
        }
        return {"$ref": f"#/components/schemas/{form.__name__}"}
    return {"type": {str: "string", int: "integer", float: "number", bool: "boolean", dict: "object"}[kind]}


T = TypeVar("T")


async def read_body(request: Request, limits: Limits) -> bytes:
    """All of a body, if it is not too long."""
    data = bytearray()
    async for part in request.stream():
        data += part
        if len(data) > limits.body_bytes:
            raise RefusedError(
                413, f"the request is longer than {limits.body_bytes:,} bytes: send less at once"
            )
    return bytes(data)


async def read_form(request: Request, limits: Limits, form: type[T]) -> T:
    """The JSON of a body."""
    body = await read_body(request, limits)
    try:
        return parse_json(body.decode("utf-8"), form, where="the request")
    except (UnicodeDecodeError, FileError) as error:
        raise RefusedError(400, str(error)) from error


def is_image(request: Request) -> bool:
    """Whether the body is one image file instead of JSON."""
    kind = request.headers.get("content-type", "")
    return kind.startswith(("image/", "application/octet-stream"))


async def read_lesson(request: Request, limits: Limits) -> tuple[list[bytes], list[str], bool]:
    """Image files and labels of a `learn`, and whether the features are wanted."""
    if is_image(request):
        label = request.query_params.get("label", "")
        return [await read_body(request, limits)], [label], request.query_params.get("features") == "1"
    lesson = await read_form(request, limits, Lesson)
    examples = lesson["examples"]
    images = unpack([example["image"] for example in examples], limits)
    return images, [example["label"] for example in examples], lesson.get("features", False)


async def read_question(request: Request, limits: Limits) -> tuple[list[bytes], bool, int | None]:
    """Image files of a `predict`, whether the features are wanted, and how many answers."""
    if is_image(request):
        return [await read_body(request, limits)], request.query_params.get("features") == "1", None
    question = await read_form(request, limits, Question)
    top = question.get("top")
    if top is not None and top < 1:
        raise RefusedError(422, f"top is {top}: ask for at least 1 label")
    return unpack(question["images"], limits), question.get("features", False), top


def unpack(images: list[str], limits: Limits) -> list[bytes]:
    """Image files from base64."""
    if not 0 < len(images) <= limits.pictures:
        raise RefusedError(422, f"{len(images):,} pictures: a request holds between 1 and {limits.pictures}")
    try:
        return [base64.b64decode(image.partition(",")[2] or image, validate=True) for image in images]
    except (binascii.Error, ValueError) as error:
        raise RefusedError(400, f"an image is not base64: {error}") from error


def decode_all(engine: Engine, images: list[bytes], limits: Limits) -> list[Pixels]:
    """Pixels of image files."""
    found = []
    for i, data in enumerate(images):
        where = f"picture {i + 1} of {len(images)}: " if len(images) > 1 else ""
        try:
            found.append(engine.decode(data, limits.pixels))
        except FileError as error:
            status = 413 if isinstance(error.__cause__, InputError) else 422
            raise RefusedError(status, f"{where}{error}") from error
    return found
