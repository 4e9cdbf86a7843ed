"""Engine: the one thread that learns and answers, for all sessions, with their pictures encoded together.

Requests wait in a queue. The thread takes what is there, passes the pictures of all of them through the
encoder in one batch, then does each request's own work in the order of arrival. Encoding is most of the cost
and does not depend, bit for bit, on what else is in the batch (`autocl.estimator.exact`): so a session's
answers are those of a classifier of its own. Because there is one thread, sessions need no locks.
"""

import asyncio
import queue
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from autocl.encoders.backbones import get_backbone
from autocl.errors import AutoclError, InputError
from autocl.estimator.classifier import ContinualClassifier
from autocl.estimator.inputs import PHOTOS, SIDE, Encoded
from autocl.learner.find import find_learner
from autocl.pictures import Pixels, decode

T = TypeVar("T")

BATCH = 64
"""Pictures after which no further request joins a batch: more would make the first ones wait."""
SAMPLE = np.pad(np.full((12, 4), 255, np.uint8), ((10, 10), (14, 14)))
"""A stroke on a board of 32×32 pixels: something to warm up with."""


@dataclass
class Job:
    """A request on its way."""

    pictures: Sequence[Pixels]
    work: Callable[[Encoded], Any]
    done: "Future[Any]" = field(default_factory=Future)


class Engine:
    """The server of one learner: `start` it, `stop` it.

    Args:
        learner: a name in the zoo, or the path of a learner for images.

    Raises:
        InputError: there is no such learner, it takes vectors, or an extra is missing.
    """

    def __init__(self, learner: str) -> None:
        self.learner = learner
        self._channels: int | None = None
        self._side = SIDE
        if learner == "photos":
            get_backbone(PHOTOS[1])
            self._channels = 3
        else:
            config = find_learner(learner).config
            if config.takes_vectors:
                raise InputError(f"{learner} takes vectors, the page shows pictures: try everyday, or photos")
            self._side = max(config.height, config.width)
        self.ready = threading.Event()
        """Set when the first example has been through: kernels are compiled, weights are in memory."""
        self._encoder = self.new_classifier()
        self._queue: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._serve, name="learner", daemon=True)
        self.batches = self.encoded = 0
        """How many batches were encoded, and pictures in them."""

    def start(self) -> None:
        """Begin to warm up, then to serve."""
        self._thread.start()

    def stop(self) -> None:
        """Finish what is waiting, then end."""
        self._queue.put(None)
        self._thread.join()

    def new_classifier(self) -> ContinualClassifier:
        """One that has learned nothing. The session asks before it teaches, so it need not ask itself."""
        return ContinualClassifier(self.learner, overflow="ensemble", prequential=False)

    def decode(self, data: bytes, max_pixels: int) -> Pixels:
        """Pixels of an image file, as the classifier itself would read it. For any thread."""
        return decode(data, channels=self._channels, at_least=self._side, max_pixels=max_pixels)

    def open(self, path: Path) -> ContinualClassifier:
        """The classifier in a file, with this server's learner whatever the file says; weights are shared."""
        found = ContinualClassifier.load(path, self.learner)
        found.predict(self._sample)  # refuses another backbone
        return self.new_classifier().partial_fit(self._sample, ["sample"]).rollback(found.snapshot())

    async def run(self, work: Callable[[Encoded], T], pictures: Sequence[Pixels] = ()) -> T:
        """Do some work in the thread of the learner, with these pictures encoded."""
        job = Job(pictures, work)
        self._queue.put(job)
        result: T = await asyncio.wrap_future(job.done)
        return result

    def _serve(self) -> None:
        failure = self._warm_up()
        self.ready.set()
        open_for_more = True
        while open_for_more:
            jobs: list[Job] = []
            while not jobs or (sum(len(j.pictures) for j in jobs) < BATCH and not self._queue.empty()):
                job = self._queue.get()
                if job is None:
                    open_for_more = False
                    break
                if not job.done.set_running_or_notify_cancel():
                    continue
                if failure is not None:
                    job.done.set_exception(failure)
                    continue
                jobs.append(job)
            self._do(jobs)

    def _warm_up(self) -> AutoclError | None:
        """Learn and answer once; returns what went wrong, for every request to say."""
        try:
            self._encoder.partial_fit([SAMPLE, SAMPLE.T], ["|", "-"])
            self._encoder.predict_proba([SAMPLE])
            self._encoder.novelty([SAMPLE])
            self._sample = self._encoder.encode([SAMPLE])
        except AutoclError as error:
            return error
        return None

    def _do(self, jobs: Sequence[Job]) -> None:
        pictures = [picture for job in jobs for picture in job.pictures]
        try:
            seen = self._encoder.encode(pictures) if pictures else self._sample
        except Exception as error:
            if len(jobs) == 1:
                jobs[0].done.set_exception(error)
            else:  # one of them is to blame; the others shall not suffer
                for job in jobs:
                    self._do([job])
            return
        self.batches += bool(pictures)
        self.encoded += len(pictures)
        end = 0
        for job in jobs:
            start, end = end, end + len(job.pictures)
            try:
                job.done.set_result(job.work(seen[start:end]))
            except Exception as error:
                job.done.set_exception(error)
