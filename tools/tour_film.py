"""Film the playground's tour: `python -m tools.tour_film docs/play.webp`, and a picture of its end beside it.

Needs autocl[dev] and Debian's Chromium. A frame is taken after every few examples, so that a busy machine
makes the same film: it plays at the pace that the tour has on an idle one.
"""

import argparse
import io
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from PIL import Image
from playwright.sync_api import Page, sync_playwright

CHROMIUM = Path("/usr/bin/chromium")
ARGUMENTS = ("--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking")
SIZE = {"width": 1200, "height": 1130}
WIDTH = 760
"""Pixels across of the film."""
EVERY = 4
"""Examples between two frames."""
PACE = 135
"""Milliseconds an example, in the film."""
END = 4000
"""Milliseconds of the last frame."""
LIMIT = 1_000_000
"""Bytes."""
WAIT = 600_000
SEVEN = [(85, 70), (250, 70), (150, 290)]


@contextmanager
def playground(learner: str) -> Iterator[str]:
    """The address of a running `autocl play`."""
    command = [sys.executable, "-m", "autocl", "play", "--learner", learner, "--port", "0", "--no-open"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        found = re.search(r"http://\S+", server.stdout.readline())
        assert found, "the server did not start"
        yield found[0]
    finally:
        server.terminate()
        server.wait()


def frames(page: Page) -> Iterator[bytes]:
    """Pictures of the page during the tour, then of a digit drawn and answered."""
    page.click("#tour")
    for example in range(EVERY, 121, EVERY):
        page.wait_for_selector(f"#moment[max='{example}']", timeout=WAIT)
        page.evaluate("scrollTo(0, 0)")
        yield page.screenshot()
    page.wait_for_selector("body[data-toured='5']", timeout=WAIT)
    yield page.screenshot()
    box = page.locator("#pad").bounding_box()
    assert box is not None
    for i, (x, y) in enumerate(SEVEN):
        page.mouse.move(box["x"] + x, box["y"] + y, steps=6)
        if i == 0:
            page.mouse.down()
    page.mouse.up()
    page.wait_for_selector(".bar", timeout=WAIT)
    page.wait_for_timeout(2000)
    yield page.screenshot()


def main() -> None:
    """Make film and picture."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path, help="the film, *.webp; the picture is *.png")
    parser.add_argument("--learner", default="everyday")
    arguments = parser.parse_args()
    with playground(arguments.learner) as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        page = browser.new_page(viewport=SIZE, color_scheme="light")
        page.goto(address)
        page.wait_for_selector("body[data-ready=yes]", timeout=WAIT)
        taken = list(frames(page))
        page.screenshot(path=arguments.out.with_suffix(".png"))
        browser.close()
    images = [Image.open(io.BytesIO(frame)).convert("RGB") for frame in taken]
    height = round(WIDTH * images[0].height / images[0].width)
    small = [image.resize((WIDTH, height), Image.Resampling.LANCZOS) for image in images]
    times = [EVERY * PACE] * (len(small) - 2) + [1500, END]
    for quality in (80, 65, 50, 35, 20):
        small[0].save(
            arguments.out,
            save_all=True,
            append_images=small[1:],
            duration=times,
            loop=0,
            quality=quality,
            method=6,
        )
        if arguments.out.stat().st_size < LIMIT:
            break
    size = arguments.out.stat().st_size
    print(f"{arguments.out}: {len(small)} frames, {sum(times) / 1000:.0f} s, {size:,} bytes")


if __name__ == "__main__":
    main()
