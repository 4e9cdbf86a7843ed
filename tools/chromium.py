"""Debian's Chromium, driven by Playwright, and the real `autocl play` for it: for the film, and for tests."""

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

CHROMIUM = Path("/usr/bin/chromium")
ARGUMENTS = (
    "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--disable-quic",
    "--use-fake-device-for-media-stream", "--use-fake-ui-for-media-stream",  # a webcam without one
)  # fmt: skip


@contextmanager
def playground(*arguments: str) -> Iterator[str]:
    """The address of a running `autocl play` with these arguments."""
    command = [sys.executable, "-m", "autocl", "play", "--port", "0", "--no-open", *arguments]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        found = re.search(r"http://\S+", server.stdout.readline())
        assert found, "the server did not start"
        yield found[0]
    finally:
        server.terminate()
        server.wait()


@contextmanager
def browser() -> Iterator[Browser]:
    """A running Chromium."""
    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield running
        running.close()
