"""Forms of the JSON that is sent and answered, and the API described with them in OpenAPI 3.1."""

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
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

from starlette.requests import Request
from starlette.responses import Response

from autocl import __version__
from autocl.play.guard import Limits

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
