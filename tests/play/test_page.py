"""The page in a real browser: teach, ask, keep, watch; by mouse and keyboard, at two sizes, no errors."""

import re
import time
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from PIL import Image

from autocl import ContinualClassifier

pytest.importorskip("playwright", reason="driving a browser needs playwright")

from playwright.sync_api import Browser, Page, TimeoutError, expect
from tools.chromium import CHROMIUM, browser, playground

pytestmark = pytest.mark.skipif(
    not CHROMIUM.exists(), reason=f"there is no Chromium at {CHROMIUM}: apt install chromium"
)
SLOW = 120_000
"""Milliseconds to wait on a machine that does other things as well."""
SHAPES = {
    "line": [(170, 40), (165, 290)],
    "corner": [(70, 60), (70, 260), (270, 260)],
    "hook": [(60, 90), (170, 50), (270, 120), (170, 280)],
    "7": [(85, 70), (250, 70), (150, 290)],
    "0": [(170, 50), (100, 110), (100, 230), (170, 290), (235, 230), (235, 110), (170, 50)],
}


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with playground() as url:
        yield url


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    with browser() as running:
        yield running


@pytest.fixture
def page(address: str, chromium: Browser) -> Iterator[Page]:
    """The page, ready; whatever it complains of in the console fails the test."""
    context = chromium.new_context(
        viewport={"width": 1440, "height": 1000}, permissions=["camera"], has_touch=True
    )
    page = context.new_page()
    page.set_default_timeout(SLOW)
    expect.set_options(timeout=SLOW)
    said: list[str] = []
    page.on("console", lambda message: said.append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on(
        "request", lambda r: said.append(r.url) if not r.url.startswith((address, "blob:", "data:")) else None
    )
    page.goto(address)
    page.wait_for_selector("body[data-ready=yes]")
    yield page
    # A refused request is the test's own doing; Chromium reports each of them.
    assert [s for s in said if "Failed to load resource" not in s] == []
    context.close()


def stroke(page: Page, points: list[tuple[int, int]], *, clear: bool = True) -> None:
    if clear:
        page.click("#clear-pad")
    page.locator("#pad").scroll_into_view_if_needed()
    box = page.locator("#pad").bounding_box()
    assert box is not None
    (x, y), *rest = points
    page.mouse.move(box["x"] + x, box["y"] + y)
    page.mouse.down()
    for x, y in rest:
        page.mouse.move(box["x"] + x, box["y"] + y, steps=5)
    page.mouse.up()


def teach(page: Page, label: str, shape: str | None = None) -> None:
    stroke(page, SHAPES[shape or label])
    page.fill("#name", label)
    page.click("#name-form button")
    expect(page.locator("#name")).to_have_value("")


def counts(page: Page) -> list[str]:
    return [text.split(" · ")[0] for text in page.locator(".card .hint").all_inner_texts()]


def test_a_class_is_live_after_one_example_and_a_wrong_answer_is_corrected_with_one_click(page):
    teach(page, "line")
    teach(page, "corner")
    assert counts(page) == ["1 example", "1 example"]
    stroke(page, SHAPES["line"])
    expect(page.locator(".bar")).to_have_count(2)
    expect(page.locator("#nearest")).to_be_visible()
    page.locator(".bar", has_text="line").click()
    expect(page.locator(".thumb")).to_have_count(3)
    expect(page.locator(".thumb .belief").nth(1)).not_to_have_text("first of all")
    taught = float(page.evaluate("document.body.dataset.taught"))
    times = []
    for _ in range(10):
        before = page.evaluate("Number(document.body.dataset.answers)")
        stroke(page, SHAPES["corner"])
        while page.evaluate("Number(document.body.dataset.answers)") <= before:
            time.sleep(0.02)
        times.append(page.evaluate("Number(document.body.dataset.milliseconds)"))
    print(
        f"\nfrom picture to answer: {sorted(times)[5]:.0f} ms in the middle; click to taught: {taught:.0f} ms"
    )


def test_by_keyboard_alone(page):
    page.focus("#pad")
    for key in ["Space", *["ArrowDown"] * 8, *["ArrowRight"] * 6, "Space"]:
        page.keyboard.press(key)
    for _ in range(4):  # pen, undo, clear, name
        page.keyboard.press("Tab")
    expect(page.locator("#name")).to_be_focused()
    page.keyboard.type("corner")
    page.keyboard.press("Enter")
    expect(page.locator(".card")).to_have_count(1)
    page.focus("#pad")
    for key in ["Space", *["ArrowDown"] * 8, "Space"]:
        page.keyboard.press(key)
    page.keyboard.press("1")
    expect(page.locator(".thumb")).to_have_count(2)
    page.get_by_label("Teach the picture shown as corner").focus()
    page.keyboard.press("Enter")
    expect(page.locator("#message")).to_contain_text("Draw something")  # the board is empty again
    page.focus("#pad")
    for key in ["Space", *["ArrowDown"] * 8, "Space"]:
        page.keyboard.press(key)
    page.get_by_label("Teach the picture shown as corner").focus()
    page.keyboard.press("Enter")
    expect(page.locator(".thumb")).to_have_count(3)
    expect(page.get_by_label("Teach the picture shown as corner")).to_be_focused()
    page.focus("#tab-draw")
    page.keyboard.press("ArrowRight")
    expect(page.locator("#panel-file")).to_be_visible()


def test_names_are_text_whatever_they_say(page):
    name = "<img src=x onerror=alert(1)> & <b>"
    teach(page, name, "line")
    expect(page.locator(".card input")).to_have_value(name)
    stroke(page, SHAPES["line"])
    expect(page.locator("#verdict")).to_contain_text(name)
    assert page.locator("#bars img, #verdict img, #cards b").count() == 0


def test_undo_delete_rename_clear_forget_and_the_timeline(page):
    page.uncheck("#hold-back")
    for label in ("line", "corner", "line", "hook"):
        teach(page, label)
    page.click("#undo")
    expect(page.locator("#moment-text")).to_have_text("learned line (3 of 4)")
    assert counts(page) == ["2 examples", "1 example", "0 examples"]
    page.locator("#moment").focus()
    page.keyboard.press("End")
    expect(page.locator("#moment-text")).to_have_text("learned hook (4 of 4)")
    page.locator(".card").first.locator(".delete").first.click(force=True)
    expect(page.locator(".thumb")).to_have_count(3)
    assert counts(page) == ["1 example"] * 3
    page.locator(".card input").first.fill("stroke")
    page.keyboard.press("Enter")
    expect(page.get_by_role("article", name="Class stroke")).to_be_visible()
    page.get_by_label("Clear the examples of corner").click()
    expect(page.locator(".thumb")).to_have_count(2)
    assert sorted(counts(page)) == ["0 examples", "1 example", "1 example"]
    page.get_by_label("Forget class hook").click()
    expect(page.locator(".card")).to_have_count(2)
    stroke(page, SHAPES["line"])
    expect(page.locator(".bar")).to_have_count(1)
    expect(page.locator(".bar .label")).to_have_text("stroke")


def test_state_pictures_and_python_can_be_taken_away(page, tmp_path, monkeypatch):
    for label in ("line", "corner"):
        teach(page, label)
    with page.expect_download() as download:
        page.click("#save")
    download.value.save_as(tmp_path / "playground.safetensors")
    assert set(ContinualClassifier.load(tmp_path / "playground.safetensors").classes_) == {"line", "corner"}
    with page.expect_download() as download:
        page.click("#export")
    with zipfile.ZipFile(download.value.path()) as archive:
        assert archive.testzip() is None
        assert sorted(archive.namelist()) == ["playground/corner/0002.png", "playground/line/0001.png"]
        for i, name in enumerate(("picture.png", "another.png")):
            (tmp_path / name).write_bytes(archive.read(archive.namelist()[i]))
    page.click("#copy")
    lines = page.inner_text("#python")
    assert lines.count("\n") in (5, 6)
    monkeypatch.chdir(tmp_path)
    exec(compile(lines, "six lines", "exec"), {})
    assert ContinualClassifier.load(tmp_path / "playground.safetensors").n_seen_ == 3
    page.locator("#state-file").set_input_files(tmp_path / "playground.safetensors")
    expect(page.locator("#moment-text")).to_contain_text("loaded playground.safetensors")
    assert sum(int(c.split()[0]) for c in counts(page)) == 3


def test_bad_files_get_a_clear_message(page, tmp_path):
    teach(page, "line")
    (tmp_path / "picture.png").write_text("not a picture")
    page.locator("#file").set_input_files(tmp_path / "picture.png")
    expect(page.locator("#message")).to_contain_text("not an image")
    (tmp_path / "state.safetensors").write_bytes(b"broken")
    page.locator("#state-file").set_input_files(tmp_path / "state.safetensors")
    expect(page.locator("#message")).to_contain_text("the state file")
    huge = tmp_path / "huge.png"
    Image.new("1", (10_000, 10_000)).save(huge)
    page.locator("#file").set_input_files(huge)
    expect(page.locator("#message")).to_contain_text("pixels are too many")
    assert counts(page) == ["1 example"]


def test_a_folder_is_taught_whole(page, tmp_path):
    for label in ("red", "blue"):
        (tmp_path / "colours" / label).mkdir(parents=True)
        for i in range(3):
            Image.new("RGB", (40, 40), label).save(tmp_path / "colours" / label / f"{i}.png")
    (tmp_path / "colours" / "red" / "notes.png").write_text("no picture")
    page.locator("#folder").set_input_files(tmp_path / "colours")
    expect(page.locator("#message")).to_contain_text("1 files were passed over")
    expect(page.locator(".card")).to_have_count(2)
    assert sorted(counts(page)) == ["2 examples", "2 examples"]  # the third of each is held back
    expect(page.locator(".thumb.held")).to_have_count(2)
    expect(page.locator("#chart svg")).to_be_visible()


def dropped(page: Page, *paths: Path) -> None:
    """Drop files or folders on the page, as the browser hears it from the desktop."""
    box = page.locator("#input").bounding_box()
    assert box is not None
    data = {"items": [], "files": [str(path) for path in paths], "dragOperationsMask": 1}
    desktop = page.context.new_cdp_session(page)
    for kind in ("dragEnter", "dragOver", "drop"):
        where = {"x": box["x"] + 100, "y": box["y"] + 100}
        desktop.send("Input.dispatchDragEvent", {"type": kind, "data": data, **where})


def test_a_picture_is_dropped_and_so_is_a_folder(page, tmp_path):
    teach(page, "line")
    for label in ("red", "blue"):
        (tmp_path / "colours" / label).mkdir(parents=True)
        for i in range(2):
            Image.new("RGB", (40, 40), label).save(tmp_path / "colours" / label / f"{i}.png")
    dropped(page, tmp_path / "colours" / "red" / "0.png")
    expect(page.locator("#picture")).to_be_visible()
    expect(page.locator(".bar")).to_have_count(1)
    assert counts(page) == ["1 example"]  # it was asked about, not taught
    dropped(page, tmp_path / "colours")
    expect(page.locator("#status")).to_contain_text("Learned 4 pictures of 2 classes")
    assert sorted(counts(page)) == ["1 example", "2 examples", "2 examples"]
    assert "dragging" not in page.locator("body").get_attribute("class")


def test_a_picture_is_pasted(page):
    teach(page, "line")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.evaluate(
        """async () => {
             const canvas = new OffscreenCanvas(40, 40);
             canvas.getContext("2d").fillRect(10, 10, 20, 20);
             const item = new ClipboardItem({"image/png": await canvas.convertToBlob()});
             await navigator.clipboard.write([item]);
           }"""
    )
    page.focus("#tab-draw")
    page.keyboard.press("Control+V")
    expect(page.locator("#picture")).to_be_visible()
    expect(page.locator(".bar")).to_have_count(1)
    page.fill("#name", "square")
    page.click("#name-form button")
    expect(page.locator(".card")).to_have_count(2)


def test_a_finger_draws(page):
    finger = page.context.new_cdp_session(page)
    box = page.locator("#pad").bounding_box()
    assert box is not None
    before = page.evaluate("scrollY")
    for kind, at in (("touchStart", 60), ("touchMove", 150), ("touchMove", 240), ("touchEnd", None)):
        points = [] if at is None else [{"x": box["x"] + at, "y": box["y"] + at}]
        finger.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})
    assert page.evaluate("scrollY") == before  # the board is drawn on, not scrolled by
    page.fill("#name", "slope")
    for _ in range(5):  # Chromium gives no click for a tap that follows a stroke too soon for it
        page.wait_for_timeout(600)
        page.locator("#name-form button").tap()
        with suppress(TimeoutError):
            page.locator(".card").wait_for(timeout=10_000)
            break
    expect(page.locator(".card")).to_have_count(1)
    ink = page.evaluate(
        """async () => {
             const bitmap = await createImageBitmap(document.querySelector(".thumb img"));
             const canvas = new OffscreenCanvas(bitmap.width, bitmap.height);
             const context = canvas.getContext("2d", { willReadFrequently: true });
             context.drawImage(bitmap, 0, 0);
             const gray = (x, y) => context.getImageData(x, y, 1, 1).data[0];
             return [gray(12, 12), gray(28, 28), gray(44, 44), gray(44, 12), gray(12, 44)];
           }"""
    )
    assert [value > 128 for value in ink] == [True, True, True, False, False]


def test_the_webcam_teaches_while_a_key_is_held(page):
    teach(page, "line")
    page.click("#tab-camera")
    expect(page.locator(".bar")).to_have_count(1)
    page.keyboard.down("1")
    expect(page.locator(".thumb").nth(3)).to_be_visible()
    page.keyboard.up("1")


def test_a_reloaded_page_finds_its_session_again(page):
    teach(page, "line")
    page.reload()
    page.wait_for_selector("body[data-ready=yes]")
    assert counts(page) == ["1 example"]
    expect(page.locator(".thumb")).to_have_count(0)


@pytest.mark.slow  # twenty seconds on an idle machine
def test_the_tour_shows_who_remembers(page):
    started = time.perf_counter()
    page.click("#tour")
    page.wait_for_selector("body[data-toured='5']", timeout=5 * SLOW)
    print(f"\nthe tour took {time.perf_counter() - started:.0f} s")
    caption = page.inner_text("#chart-text")
    print(caption)
    learner, sgd, _ = (int(n) for n in re.findall(r"(\d+) %", caption))
    assert learner > sgd
    page.click("#watch summary")
    assert page.locator("#chart-table tbody tr").count() == 15
    for digit in ("0", "7"):  # what a visitor does next
        asked = page.evaluate("document.body.dataset.answers")
        stroke(page, SHAPES[digit])
        page.wait_for_function("(n) => Number(document.body.dataset.answers) > n", arg=int(asked or 0))
        page.wait_for_timeout(1000)  # until the whole stroke is answered
        assert page.inner_text("#verdict strong") == digit
    before = page.get_attribute("#state-picture", "src")
    page.locator(".bar").first.click()
    expect(page.locator("#state-picture")).not_to_have_attribute("src", before)


@pytest.mark.parametrize("width", [375, 1440])
@pytest.mark.parametrize("scheme", ["light", pytest.param("dark", marks=pytest.mark.slow)])
def test_it_fits_and_everything_has_a_name(page, width, scheme, tmp_path):
    page.emulate_media(color_scheme=scheme)
    page.set_viewport_size({"width": width, "height": 900})
    for label in ("line", "a rather long name that somebody has given to a class of theirs"):
        teach(page, label, "corner")
    stroke(page, SHAPES["line"])
    expect(page.locator(".bar")).to_have_count(2)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    nameless = page.evaluate(
        """[...document.querySelectorAll("button, input, canvas, img, svg, video, [role=tab]")].filter((e) =>
             e.checkVisibility() &&
             !(e.getAttribute("aria-label") || e.alt || e.labels?.length || e.textContent.trim()))
           .map((e) => e.outerHTML)"""
    )
    assert nameless == []
    page.screenshot(path=tmp_path / f"{width}-{scheme}.png", full_page=True)


def test_the_description_of_the_api_is_readable(page, address):
    page.goto(f"{address}docs")
    expect(page.locator(".endpoint").first).to_be_visible()
    assert page.locator(".endpoint").count() > 12
