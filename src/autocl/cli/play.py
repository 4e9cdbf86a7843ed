"""`autocl play`: the playground, a page to teach a learner by hand, and the API behind it."""

from pathlib import Path

from autocl.cli.terminal import Left, say
from autocl.errors import InputError


def play(
    *,
    learner: str = "everyday",
    port: int = 8642,
    host: str = "127.0.0.1",
    store: Left[Path] = None,
    hours: float = 24.0,
    open: bool = True,
) -> None:
    """Open a page to teach a learner by drawing, pictures or webcam, and to watch it remember.

    Nothing leaves this machine. The same server is an API: its page /docs describes it.

    Args:
        learner: a name in the zoo for pictures, or a path: everyday for drawings and small pictures, photos
            for photographs (needs autocl[photos]).
        port: of the page; 0 takes any that is free.
        host: address to listen on. On any but this machine's own the API needs a token: AUTOCL_PLAY_TOKEN, or
            one made up and printed.
        store: folder in which sessions survive a restart.
        hours: a session that nobody has used for so long is deleted.
        open: whether to open the browser.

    Examples:
        autocl play
        autocl play --learner photos --store ~/playground
        autocl play --port 0 --no-open
        AUTOCL_PLAY_TOKEN=secret autocl play --host 0.0.0.0
    """
    try:
        from autocl.play.app import serve
    except ModuleNotFoundError as error:
        raise InputError(f"{error.name} is missing: pip install 'autocl[play]'") from error
    from autocl.play.guard import Limits

    if not hours > 0:
        raise InputError(f"--hours {hours:g}: a session must live for longer than that")
    limits = Limits(hours=hours)
    serve(learner, host=host, port=port, store=store, limits=limits, show=open, say=say)
