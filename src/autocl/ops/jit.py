"""numba's compiler with its cache on disk, where there can be one.

Compiling takes seconds, so numba keeps the results in files. Where it can write none (containers without a
home, a full disk) or finds damaged ones, it raises. Here that is a warning: the kernels are compiled anew.
"""

import warnings
from collections.abc import Callable
from typing import Any

import numba

Kernel = Callable[..., Any]

_warned: set[str] = set()


def njit(**options: Any) -> Callable[[Kernel], Kernel]:
    """`numba.njit(cache=True, …)` that does without the cache when it has to.

    Example:
        >>> @njit()
        ... def add(x, y):
        ...     return x + y
        >>> add(1, 2)
        3
    """

    def compiled(function: Kernel) -> Kernel:
        try:
            dispatcher: Any = numba.njit(cache=True, **options)(function)
        except (RuntimeError, OSError) as error:  # numba's "no locator available"
            _warn("cannot keep compiled kernels", error)
            plain: Kernel = numba.njit(**options)(function)
            return plain
        # There is no public way to hear of failures; tests/ops/test_jit.py notices if this one changes.
        dispatcher._cache = _ForgivingCache(dispatcher._cache)
        kernel: Kernel = dispatcher
        return kernel

    return compiled


class _ForgivingCache:
    """A cache of numba that is empty where it fails.

    Args:
        inner: the real one.
    """

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def load_overload(self, signature: Any, context: Any) -> Any:
        """Code that was compiled for these types, if it can be read."""
        try:
            return self._inner.load_overload(signature, context)
        except Exception as error:  # it is a pickle: damage can show as anything
            _warn("cannot read compiled kernels", error)
            try:
                self._inner.flush()  # an empty index, so that the next start finds what is saved now
            except Exception:
                self._inner.disable()
            return None

    def save_overload(self, signature: Any, result: Any) -> None:
        """Keep what was compiled, if it can be written."""
        try:
            self._inner.save_overload(signature, result)
        except Exception as error:
            _warn("cannot keep compiled kernels", error)
            self._inner.disable()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


def _warn(what: str, error: Exception) -> None:
    if what not in _warned:
        _warned.add(what)
        warnings.warn(
            f"autocl {what} ({type(error).__name__}: {error}): they are compiled again, which takes some "
            "seconds. If you see this at every start, set NUMBA_CACHE_DIR to a folder of your own",
            RuntimeWarning,
            stacklevel=3,
        )
