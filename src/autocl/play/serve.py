"""Run the application on a port of this machine, and show it to the person who started it."""

import ipaddress
import os
import secrets
import socket
import threading
import webbrowser
from collections.abc import Callable
from pathlib import Path

import uvicorn

from autocl.errors import InputError
from autocl.play.app import make_app
from autocl.play.guard import LOOPBACK
from autocl.play.limits import Limits

TOKEN = "AUTOCL_PLAY_TOKEN"
"""Environment variable with the token; arguments could be read by everybody on the machine."""


def serve(
    learner: str,
    *,
    host: str,
    port: int,
    store: Path | None,
    limits: Limits,
    show: bool,
    say: Callable[[str], object],
) -> None:
    """Serve until Ctrl-C.

    Args:
        learner: which one people teach.
        host: address to listen on. Any but this machine's own needs a token.
        port: 0: any that is free.
        store: a folder that sessions survive in.
        limits: what a session may use up.
        show: whether to open a browser.
        say: is called with lines for the person.
    """
    local = is_loopback(host)
    token = None if local else os.environ.get(TOKEN) or secrets.token_urlsafe(24)
    listening = _listen(host, port)
    try:
        hosts = frozenset({*LOOPBACK, host}) if local else None
        app = make_app(learner, store=store, limits=limits, hosts=hosts, token=token)
        address = f"http://{_shown(host)}:{listening.getsockname()[1]}/"
        say(f"the playground is {address}{f'#token={token}' if token else ''}   (Ctrl-C ends it)")
        kept = f"are kept in {store}" if store else "end with it (--store FOLDER keeps them)"
        say(f"learner: {learner}; sessions {kept}")
        if show:
            threading.Timer(0.5, _open, [address + (f"#token={token}" if token else "")]).start()
        config = uvicorn.Config(app, log_level="warning", access_log=False, server_header=False)
        uvicorn.Server(config).run(sockets=[listening])
    except KeyboardInterrupt:
        pass
    finally:
        listening.close()
    say(f"stopped; sessions are in {store}" if store else "stopped")


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address.

    Example:
        >>> is_loopback("127.0.0.1"), is_loopback("localhost"), is_loopback("0.0.0.0")
        (True, True, False)
    """
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _listen(host: str, port: int) -> socket.socket:
    if not 0 <= port < 1 << 16:
        raise InputError(f"there is no port {port}: --port 0 takes a free one")
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listening = socket.socket(family, socket.SOCK_STREAM)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen(128)
    except OSError as error:
        raise InputError(
            f"cannot listen on {host}, port {port}: {error}; --port 0 takes a free one"
        ) from error
    return listening


def _shown(host: str) -> str:
    """The address as a browser takes it."""
    if host in ("0.0.0.0", "::"):
        return socket.gethostname()
    return f"[{host}]" if ":" in host else host


def _open(address: str) -> None:
    """Show an address in a browser, if there is one."""
    try:
        webbrowser.get()
    except webbrowser.Error:
        return
    webbrowser.open(address)
