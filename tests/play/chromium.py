"""Debian's Chromium, driven by Playwright; and the real command as a server for it."""

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

CHROMIUM = Path("/usr/bin/chromium")
ARGUMENTS = (
    "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--disable-quic",
)  # fmt: skip


def need_chromium() -> None:
    """Skip tests where there is no browser; Playwright's own is a download that nobody needs."""
    pytest.importorskip("playwright", reason="driving a browser needs playwright")
    if not CHROMIUM.exists():
        pytest.skip(f"there is no Chromium at {CHROMIUM}: apt install chromium")


@contextmanager
def playground(*arguments: str) -> Iterator[str]:
    """The address of a running `autocl play`."""
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
def browser() -> Iterator[object]:
    """A running Chromium."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=CHROMIUM, args=[
            *ARGUMENTS, "--use-fake-device-for-media-stream", "--use-fake-ui-for-media-stream",
        ])  # fmt: skip
        yield running
        running.close()
