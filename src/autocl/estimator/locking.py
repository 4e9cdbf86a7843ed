"""One writer at a time: a lock that estimators can have in spite of copies, pickles and forks."""

import os
import threading
from typing import Any

from sklearn.base import BaseEstimator


class OneWriter(BaseEstimator):  # type: ignore[misc]
    """An estimator whose writers take turns: `with self._writing(): …`. Readers need no lock."""

    def _writing(self) -> threading.RLock:
        """The lock of this object in this process: in a forked child its holder may not exist."""
        # Made when first needed: scikit-learn wants nothing but arguments in __init__. setdefault is atomic.
        lock: threading.RLock = self.__dict__.setdefault(f"_lock_{os.getpid()}", threading.RLock())
        return lock

    def __getstate__(self) -> dict[str, Any]:
        """All but the locks, which cannot be copied."""
        state: dict[str, Any] = super().__getstate__()
        return {name: value for name, value in state.items() if not name.startswith("_lock_")}
