"""Table 1: two tasks from the test classes of the meta-training sets, in both orders.

A run is a set of random streams. The authors' code asks one query of each task in 3,264 streams a run; here
1,000 streams with one query per class give a smaller standard error.
"""

from collections.abc import Sequence
from itertools import accumulate

import torch

from autocl.data.batch import StreamBatch
from autocl.data.fixed import FixedStream, FixedTask
from autocl.data.imageset import ImageSet
from autocl.data.sampler import StreamSampler
from autocl.data.stream_config import StreamConfig
from autocl.evaluation.protocol import Options, Protocol, Sets, Setting, entry
from autocl.evaluation.rows import pair_row
from autocl.evaluation.subject import SetRef

STREAMS = 1000
CONFIG = StreamConfig(tasks=2, ways=5, shots=15, queries=5, order="alternate", drawing="independent")
A = SetRef(name="omniglot", split="test", options={"rotations": True})
B = SetRef(name="mini_imagenet", split="test")


def as_fixed(batch: StreamBatch, sets: Sequence[ImageSet], name: str) -> list[FixedStream]:
    """The streams of a drawn batch, in the form of those for meta-testing."""
    offsets = [0, *accumulate(len(s.images) for s in sets)]
    streams = []
    for b in range(len(batch.tasks[0].demos)):
        tasks = []
        for task in batch.tasks:
            images, first = sets[task.source], offsets[task.source]
            demos, queries = (batch.pool[rows[b]] - first for rows in (task.demos, task.queries))
            tasks.append(
                FixedTask(
                    name=images.name,
                    demo_set=images,
                    demo_index=demos,
                    demo_labels=task.demo_labels[b],
                    query_set=images,
                    query_index=queries,
                    query_labels=task.query_labels[b],
                    train_index=torch.sort(demos).values,
                    train_labels=task.demo_labels[b][torch.argsort(demos)],
                )
            )
        streams.append(
            FixedStream(name=name, tasks=tuple(tasks), n_outputs=batch.n_outputs, scenario="domain")
        )
    return streams


def _setting(order: str, step: int) -> Setting:
    first, second = order[0], order[-1]

    def streams(sets: Sets, run: int, options: Options) -> list[FixedStream]:
        chosen = [sets[A.key], sets[B.key]]
        # The sampler alternates: A→B at even steps, B→A at odd ones.
        sampler = StreamSampler(chosen, CONFIG, batch_size=options.n_streams(STREAMS), seed=run)
        return as_fixed(sampler.batch(step), chosen, order)

    return Setting(
        name=order,
        sets=(A, B),
        streams=streams,
        cells={
            f"{first}: {first}": entry(0, 0),
            f"{order}: {second}": entry(1, 1),
            f"{order}: {first}": entry(1, 0),
        },
    )


TWO_TASK = Protocol(
    name="two-task",
    title="Two tasks, A = Omniglot, B = mini-ImageNet (Table 1)",
    runs=5,
    settings=(_setting("A→B", 0), _setting("B→A", 1)),
    row=pair_row,
)
