"""Reading of requests: JSON of a stated form, or one image file as it is."""

import base64
import binascii
from typing import TypeVar

from starlette.requests import Request

from autocl.errors import FileError, InputError
from autocl.pictures import Pixels
from autocl.play.engine import Engine
from autocl.play.forms import Lesson, Question
from autocl.play.guard import Limits, RefusedError
from autocl.typed_json import parse_json

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
