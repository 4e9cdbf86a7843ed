"""Tables 1 and 2 and the appendix's diverse domains: 5-way tasks of several image sets in turn."""

from autocl.data.eval_streams import build_stream, class_range
from autocl.data.sampler import StreamSampler
from autocl.data.stream import Stream
from autocl.data.stream_config import StreamConfig
from autocl.evaluation.protocol import (
    ALL_THREE,
    FC100_MINI,
    OMNI_MINI,
    Cell,
    Options,
    Protocol,
    Row,
    SetRef,
    Sets,
    Setting,
    average_at,
    entry,
    numbers,
    out_of_the_box,
    train_and_test,
)

SHOTS, WAYS = 15, 5
STREAMS = 1000
"""Streams of each run of Table 1, with one query per class. The authors' code asks one query of each task in
3,264 streams a run, which gives a larger standard error."""
CONFIG = StreamConfig(tasks=2, ways=WAYS, shots=SHOTS, queries=5, order="alternate", drawing="independent")
LETTERS = {"A": ("mnist", "04"), "B": ("cifar10", "04"), "C": ("mnist", "59"), "D": ("fashion_mnist", "04")}
"""The four tasks of Table 2 and the appendix: image set and range of classes."""
TWO = "A: A|A→B: B|A→B: A|B: B|B→A: A|B→A: B"


def two_cells(order: str) -> dict[str, Cell]:
    """The first task when learned, the second when learned, the first at the end."""
    first, second = order.split("→")
    return {
        f"{first}: {first}": entry(0, 0),
        f"{order}: {second}": entry(1, 1),
        f"{order}: {first}": entry(1, 0),
    }


def drawn_setting(order: str, *refs: SetRef) -> Setting:
    """Table 1: tasks drawn from the test classes of the sets of meta-training."""
    step = ("A→B", "B→A").index(order)

    def streams(sets: Sets, run: int, options: Options) -> Stream:
        chosen = [sets[ref.key] for ref in refs]
        # The sampler alternates: A→B at even steps, B→A at odd ones.
        sampler = StreamSampler(chosen, CONFIG, batch_size=options.n_streams(STREAMS), seed=run)
        return sampler.batch(step).on_sets(chosen)

    return Setting(name=order, sets=refs, n_outputs=WAYS, streams=streams, cells=two_cells(order))


def chain_setting(order: str, cells: dict[str, Cell], *, shots: int = SHOTS) -> Setting:
    """A domain-incremental stream such as "A→B→C", over halves of sets that no learner has seen."""
    letters = order.split("→")

    def streams(sets: Sets, run: int, options: Options) -> Stream:
        stages = []
        for name, span in (LETTERS[letter] for letter in letters):
            stages.append(class_range(sets[f"{name}/train"], sets[f"{name}/test"], span))
        return build_stream(stages, shots=shots, run=run, demos=options.demos, name=order)

    refs = train_and_test(*(LETTERS[letter][0] for letter in letters))
    return Setting(name=order, sets=refs, n_outputs=WAYS, streams=streams, cells=cells)


def prefix_cells(order: str) -> dict[str, Cell]:
    """Every task at every boundary of a chain, and the average from the second on."""
    letters = order.split("→")
    cells: dict[str, Cell] = {}
    for boundary in range(len(letters)):
        prefix = "→".join(letters[: boundary + 1])
        for task in range(boundary + 1):
            cells[f"{prefix}: {letters[task]}"] = entry(boundary, task)
        if boundary:
            cells[f"{prefix}: average"] = average_at(boundary)
    return cells


OMNIGLOT = SetRef(name="omniglot", split="test", options=(("rotations", True),))
MINI_IMAGENET = SetRef(name="mini_imagenet", split="test")
FC100 = SetRef(name="fc100", split="test")


def without_and_with(sets: tuple[str, ...], cells: str, without: str, with_acl: str) -> tuple[Row, Row]:
    """Rows of learners meta-trained without and with backward terms, over 5 runs."""
    return (
        out_of_the_box(sets, numbers(cells, without, 5), acl=False),
        out_of_the_box(sets, numbers(cells, with_acl, 5)),
    )


TWO_TASK = Protocol(
    name="two-task",
    title="Two tasks, A = Omniglot, B = mini-ImageNet (Table 1)",
    position=1,
    runs=5,
    revision=2,  # the sampler draws other streams since a position of the demos no longer tells the query
    settings=tuple(drawn_setting(order, OMNIGLOT, MINI_IMAGENET) for order in ("A→B", "B→A")),
    published=without_and_with(
        OMNI_MINI,
        TWO,
        "97.6±0.2 52.8±0.7 22.9±0.7 52.1±0.8 97.8±0.3 20.4±0.6",
        "98.3±0.2 54.4±0.8 98.2±0.2 54.8±0.9 98.0±0.3 54.6±1.0",
    ),
)

TWO_TASK_FC100 = Protocol(
    name="two-task-fc100",
    title="Two tasks, A = FC100, B = mini-ImageNet (Table 1, lower half)",
    position=2,
    runs=5,
    revision=2,
    settings=tuple(drawn_setting(order, FC100, MINI_IMAGENET) for order in ("A→B", "B→A")),
    published=without_and_with(
        FC100_MINI,
        TWO,
        "49.7±0.7 55.0±1.0 21.3±0.7 55.1±0.6 49.9±0.8 21.7±0.8",
        "53.8±1.7 52.5±1.2 46.2±1.3 59.9±0.7 45.5±0.9 53.0±0.6",
    ),
)

TWO_TASK_OOD = Protocol(
    name="two-task-ood",
    title="Two tasks of unseen domains, A = MNIST, B = CIFAR-10 (Table 2)",
    position=3,
    runs=5,
    settings=tuple(chain_setting(order, two_cells(order)) for order in ("A→B", "B→A")),
    published=(
        *without_and_with(
            OMNI_MINI,
            TWO,
            "71.1±4.0 49.4±2.4 43.7±2.3 51.5±1.4 68.9±4.1 24.9±3.2",
            "75.4±3.0 50.8±1.3 81.5±2.7 51.6±1.3 77.9±2.3 51.8±2.0",
        ),
        *without_and_with(
            FC100_MINI,
            TWO,
            "60.1±2.0 56.1±2.3 17.2±3.5 54.4±1.7 58.6±1.6 21.2±3.1",
            "70.0±2.4 51.0±1.0 68.2±2.7 59.2±1.7 66.9±3.4 52.5±1.3",
        ),
    ),
)

# The shorter streams of the table are beginnings of the longest, whose demos are the same: one passage gives
# them all. Unlike the authors' code, MNIST-59's queries are normalised as MNIST.
CHAIN = "A→B→C→D"
_DIVERSE = (
    "A: A|B: B|C: C|D: D|alone: average|A→B: A|A→B: B|A→B: average|A→B→C: A|A→B→C: B|A→B→C: C|A→B→C: average|"
    "A→B→C→D: A|A→B→C→D: B|A→B→C→D: C|A→B→C→D: D|A→B→C→D: average"
)
DIVERSE = Protocol(
    name="diverse",
    title="Diverse domains, A = MNIST-04, B = CIFAR10-04, C = MNIST-59, D = FMNIST-04 (appendix)",
    position=7,
    runs=5,
    settings=(
        chain_setting(CHAIN, prefix_cells(CHAIN)),
        *(chain_setting(letter, {f"{letter}: {letter}": entry(0, 0)}) for letter in "BCD"),
    ),
    averages={"alone: average": tuple(f"{letter}: {letter}" for letter in "ABCD")},
    published=(
        *without_and_with(
            OMNI_MINI,
            _DIVERSE,
            "71.1±4.0 51.5±1.4 65.9±2.4 52.8±3.4 60.3 43.7±2.3 49.4±2.4 46.6 26.5±3.2 32.3±1.7 56.5±8.1 "
            "38.4 24.6±2.7 20.6±2.3 38.5±4.4 36.1±2.5 30.0",
            "75.4±3.0 51.6±1.3 63.0±3.3 54.8±1.3 61.2 81.5±2.7 50.8±1.3 66.1 64.5±6.0 50.8±1.2 33.7±2.2 "
            "49.7 64.3±4.8 47.5±1.0 32.7±1.9 31.2±4.9 43.9",
        ),
        out_of_the_box(
            ALL_THREE,
            numbers(
                _DIVERSE,
                "89.7±1.6 55.3±0.9 76.1±2.0 59.2±4.0 70.1 88.0±2.2 52.9±1.2 70.5 82.2±1.7 50.3±2.0 44.3±3.0 "
                "58.9 78.9±2.3 49.2±1.3 45.4±3.9 30.1±5.8 50.9",
                5,
            ),
        ),
    ),
)

PROTOCOLS = (TWO_TASK, TWO_TASK_FC100, TWO_TASK_OOD, DIVERSE)
