"""Film the playground's tour: `python -m tools.tour_film docs/play.webp`, and a picture of its end beside it.

Needs autocl[dev] and Debian's Chromium. Frames are shown for as long as their examples take on an idle
machine, so that a busy one makes the same film.
"""

import argparse
import io
from collections.abc import Iterator
from pathlib import Path

from PIL import Image
from playwright.sync_api import Page
from tools.chromium import browser, playground

SIZE = {"width": 1200, "height": 1130}
WIDTH = 760
"""Pixels across of the film."""
EVERY = 4
"""Examples between two frames at least; a busy machine takes fewer frames, each shown for longer."""
PACE = 135
"""Milliseconds an example, in the film."""
END = 4000
"""Milliseconds of the two last frames."""
LIMIT = 1_000_000
"""Bytes."""
WAIT = 600_000
SEVEN = [(85, 70), (250, 70), (150, 290)]


def frames(page: Page) -> Iterator[tuple[bytes, int]]:
    """Pictures of the page in the tour, then of a digit drawn and answered; each with its milliseconds."""
    page.click("#tour")
    shown, before = 0, page.screenshot()
    while not page.evaluate("document.body.dataset.toured"):
        learned = page.evaluate("Number(document.getElementById('moment').max)")
        if learned < shown + EVERY:
            page.wait_for_timeout(100)
            continue
        page.evaluate("scrollTo(0, 0)")
        yield before, (learned - shown) * PACE
        shown, before = learned, page.screenshot()
    yield before, EVERY * PACE
    yield page.screenshot(), END
    box = page.locator("#pad").bounding_box()
    assert box is not None
    for i, (x, y) in enumerate(SEVEN):
        page.mouse.move(box["x"] + x, box["y"] + y, steps=6)
        if i == 0:
            page.mouse.down()
    page.mouse.up()
    page.wait_for_selector(".bar", timeout=WAIT)
    page.wait_for_timeout(3000)
    yield page.screenshot(), END


def main() -> None:
    """Make film and picture."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path, help="the film, *.webp; the picture is *.png")
    parser.add_argument("--learner", default="everyday")
    arguments = parser.parse_args()
    with playground("--learner", arguments.learner) as address, browser() as chromium:
        page = chromium.new_page(viewport=SIZE, color_scheme="light")
        page.goto(address)
        page.wait_for_selector("body[data-ready=yes]", timeout=WAIT)
        taken = list(frames(page))
    images = [Image.open(io.BytesIO(frame)).convert("RGB") for frame, _ in taken]
    images[-1].quantize(128).save(arguments.out.with_suffix(".png"), optimize=True)
    height = round(WIDTH * images[0].height / images[0].width)
    small = [image.resize((WIDTH, height), Image.Resampling.LANCZOS) for image in images]
    times = [milliseconds for _, milliseconds in taken]
    for quality in (60, 40, 20):
        small[0].save(
            arguments.out,
            save_all=True,
            append_images=small[1:],
            duration=times,
            loop=0,
            quality=quality,
            method=4,
        )
        if arguments.out.stat().st_size < LIMIT:
            break
    size = arguments.out.stat().st_size
    print(f"{arguments.out}: {len(small)} frames, {sum(times) / 1000:.0f} s, {size:,} bytes")


if __name__ == "__main__":
    main()
