"""The API described in OpenAPI 3.1. A test compares it with the routes and with what they answer."""

from typing import Any

from autocl import __version__
from autocl.play.guard import Limits

Json = dict[str, Any]

ANSWER: Json = {
    "type": "object",
    "required": ["answers", "novelty", "novelty_by"],
    "properties": {
        "answers": {
            "type": "array",
            "description": "best first; empty before the first example",
            "items": {
                "type": "object",
                "required": ["label", "probability"],
                "properties": {"label": {"type": "string"}, "probability": {"type": "number"}},
            },
        },
        "novelty": {"type": "number", "description": "0: like what was shown … 1: unlike all of it"},
        "novelty_by": {
            "enum": ["learner", "probability"],
            "description": "the learner's own measure; or, where it has none, one minus the highest "
            "probability, which an unknown class need not raise",
        },
        "features": {
            "type": "string",
            "description": "on request: the learner's features, of unit length, base64 of float32",
        },
    },
}
SESSION: Json = {
    "type": "object",
    "required": ["session", "classes", "moment", "moments", "state_bytes"],
    "properties": {
        "session": {"type": "string", "description": "its name, and the permission to use it"},
        "classes": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"label": {"type": "string"}, "examples": {"type": "integer"}},
            },
        },
        "moment": {"type": "integer", "description": "changes so far"},
        "moments": {
            "type": "array",
            "items": {"type": "integer"},
            "description": "moments whose state is kept: `back` goes there",
        },
        "state_bytes": {"type": "integer"},
    },
}
LEARNED: Json = {
    "allOf": [
        {"$ref": "#/components/schemas/Session"},
        {
            "type": "object",
            "properties": {"before": {"type": "array", "items": {"$ref": "#/components/schemas/Answer"}}},
        },
    ]
}
IMAGE = {"type": "string", "description": "base64 of an image file, or a data: address"}
FEATURES = {"type": "boolean", "default": False, "description": "answer with the features, too"}
FILE: Json = {"schema": {"type": "string", "contentMediaType": "application/octet-stream"}}


def document(limits: Limits) -> Json:
    """The description."""
    one = "/sessions/{session}"
    examples = _object(label={"type": "string"}, image=IMAGE)
    lesson = _body(_object(["examples"], examples=_many(examples, limits), features=FEATURES), "image/*")
    top = {"type": "integer", "description": "how many labels to answer with; default: all"}
    question = _body(_object(["images"], images=_many(IMAGE, limits), features=FEATURES, top=top), "image/*")
    paths: Json = {
        "/health": {"get": _answer("Whether the learner is warm; what it is; limits", _object())},
        "/openapi.json": {"get": _answer("This description", _object())},
        "/tour": {"get": _answer("Digits, two classes at a time: to teach, and to hold back", _object())},
        "/sessions": {"post": _answer("Start a session", _ref("Session"), status="201")},
        one: {
            "get": _answer("What a session knows", _ref("Session")),
            "delete": {"summary": "End a session", "responses": {"204": {"description": "gone"}, **_REFUSED}},
        },
        f"{one}/learn": {
            "post": _answer(
                "Learn pictures, one after the other, all or none: JSON, or one image file with ?label=NAME. "
                "Answers with what was believed of each just before",
                LEARNED, lesson, _query("label"), _query("features", ["0", "1"]),
            )
        },
        f"{one}/predict": {
            "post": _answer(
                "Ask about pictures: JSON, or one image file. Nothing changes",
                _object(["answers", "moment"], answers={"type": "array", "items": _ref("Answer")},
                        moment={"type": "integer"}),
                question, _query("features", ["0", "1"]),
            )
        },
        f"{one}/state": {
            "get": {
                "summary": "The state as a file for ContinualClassifier.load",
                "responses": {
                    "200": {"description": "the file", "content": {"application/octet-stream": FILE}},
                    **_REFUSED,
                },
            },
            "put": _answer("Go on from it", _ref("Session"), _body(None, "application/octet-stream")),
        },
        f"{one}/picture": {
            "get": {
                "summary": "The state, drawn",
                "responses": {"200": {"description": "PNG", "content": {"image/png": FILE}}, **_REFUSED},
            }
        },
        f"{one}/back": {
            "post": _answer(
                "Go to another moment", _ref("Session"),
                _body(_object(["moment"], moment={"type": "integer"})),
            )
        },
        f"{one}/forget": {
            "post": _answer(
                "Forget a class exactly, or refuse (409)", _ref("Session"),
                _body(_object(["label"], label={"type": "string"})),
            )
        },
        f"{one}/rename": {
            "post": _answer(
                "Rename a class", _ref("Session"),
                _body(_object(["label", "to"], label={"type": "string"}, to={"type": "string"})),
            )
        },
    }  # fmt: skip
    for path, methods in paths.items():
        if path.startswith(one):
            methods["parameters"] = [
                {"name": "session", "in": "path", "required": True, "schema": {"type": "string"}}
            ]
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
        "components": {
            "schemas": {
                "Answer": ANSWER,
                "Session": SESSION,
                "Error": _object(["error"], error={"type": "string"}),
            },
            "securitySchemes": {
                "token": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "only where the server is bound to another address than this machine's",
                }
            },
        },
        "security": [{}, {"token": []}],
    }


_REFUSED: Json = {
    "4XX": {
        "description": "refused; the message says why",
        "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}},
    }
}


def _answer(
    summary: str, schema: Json, body: Json | None = None, *queries: Json, status: str = "200"
) -> Json:
    found: Json = {
        "summary": summary,
        "responses": {
            status: {"description": "done", "content": {"application/json": {"schema": schema}}},
            **_REFUSED,
        },
    }
    if body is not None:
        found["requestBody"] = body
    if queries:
        found["parameters"] = list(queries)
    return found


def _body(schema: Json | None, *files: str) -> Json:
    content: Json = dict.fromkeys(files, FILE)
    if schema is not None:
        content["application/json"] = {"schema": schema}
    return {"required": True, "content": content}


def _object(required: list[str] | None = None, **properties: Json) -> Json:
    return {"type": "object", "required": required or [], "properties": properties}


def _many(items: Json, limits: Limits) -> Json:
    return {"type": "array", "items": items, "minItems": 1, "maxItems": limits.pictures}


def _query(name: str, values: list[str] | None = None) -> Json:
    schema: Json = {"type": "string"} if values is None else {"enum": values}
    return {"name": name, "in": "query", "schema": schema}


def _ref(name: str) -> Json:
    return {"$ref": f"#/components/schemas/{name}"}
