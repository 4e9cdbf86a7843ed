"""The contest over digits, and the sections of the page that tell it."""

import html
import time
from collections.abc import Mapping, Sequence

import torch
from rich.console import Console

from autocl import __version__, zoo
from autocl.baselines.incontext import InContext
from autocl.errors import InputError
from autocl.evaluation.weights import record_film
from autocl.learner import Learner
from autocl.learner.find import learner_file, title_of
from autocl.tour import page
from autocl.tour.contest import Standing, contestants, digit_streams, play, scenario_for
from autocl.tour.mistakes import mistakes
from autocl.tour.table import watch

WANTED = ("split-class", "everyday")


def open_learners(chosen: Sequence[str], console: Console) -> dict[str, Learner]:
    """Learners by the names they have in the table."""
    if not chosen:
        there = zoo.names()
        chosen = [name for name in WANTED if name in there] or there
        if not chosen:
            raise InputError(
                "no learner ships with this checkout yet: meta-train one (autocl train quick) and pass its "
                "file, autocl tour --learner runs/…/best.safetensors"
            )
        if missing := [name for name in WANTED if name not in chosen]:
            console.print(f"not shipped: {', '.join(missing)}; going with {', '.join(chosen)}")
    found = {}
    for name in chosen:
        with learner_file(name) as file:
            found[title_of(file)] = Learner.from_pretrained(file)
    return found


def digits(
    learners: Mapping[str, Learner], console: Console, *, shots: int, runs: int
) -> list[tuple[str, str]]:
    """Play the contest and tell it in sections of the page."""
    scenario = scenario_for(learners)
    streams = digit_streams(scenario, shots=shots, runs=runs)
    tasks = [f"{2 * t}/{2 * t + 1}" for t in range(len(streams[0].tasks))]
    entered = contestants(learners)
    question = "which of the ten digits" if scenario == "class" else "even or odd"
    setting = (
        f"{shots} demos of each digit, {runs} runs with other demos, the same "
        f"{sum(t.queries.shape[1] for t in streams[0].tasks)} test images; the question is {question}"
    )
    console.print(f"{setting} (the first start compiles kernels, once)", soft_wrap=True, highlight=False)
    started = time.perf_counter()
    last = list(watch(play(entered, streams), entered, tasks, console).values())
    seconds = time.perf_counter() - started
    first = next(s.contestant for s in last if s.contestant.learner is not None)
    assert isinstance(first.method, InContext)
    assert first.learner is not None
    wrong, asked = mistakes(first.method, streams)
    sections = [
        ("Accuracy on all digits met so far", _intro(setting) + page.result_table(last, tasks)),
        ("The same, as curves", page.inline_svg(page.curves(last, tasks))),
        ("Accuracy triangles", _HOW_TO_READ + page.triangles(last, tasks)),
    ]
    if getattr(first.learner.config, "mixer", "") == "srwm":
        film = record_film(first.learner, streams[0], features=first.method.features)
        sections.append((f"The fast weights of {first.name} while it learns", page.weights(film)))
    sections.append((f"What {first.name} got wrong (run 1)", page.wrong_digits(wrong, asked)))
    sections.append(("How this was made", _colophon(last, seconds)))
    return sections


def _intro(setting: str) -> str:
    return (
        f"<p>{setting}. Nobody sees an old demo again. The learners were meta-trained on other images and "
        "learn these in one forward pass, without gradients: the stream rewrites their fast weights. Adam "
        "and EWC train a network on the same demos from scratch.</p>"
    )


_HOW_TO_READ = (
    "<p>Row: after which task it was asked. Column: about which task. The diagonal is what was learned at "
    "the time; going down a column shows what became of it.</p>"
)


def _colophon(last: Sequence[Standing], seconds: float) -> str:
    costs = []
    for standing in last:
        name, cost = html.escape(standing.contestant.name), standing.contestant.method.cost()
        costs.append(f"{name}: {cost.gradient_steps} gradient steps, {cost.state_bytes:,} bytes kept")
    return (
        f"<p>autocl {__version__}, torch {torch.__version__}, {torch.get_num_threads()} threads; the contest "
        f"took {seconds:.0f} s. {'; '.join(costs)}.</p><p>On your own images:</p>"
        "<pre>from autocl import ContinualClassifier\n\n"
        'clf = ContinualClassifier("everyday")\n'
        'clf.partial_fit(["cat1.jpg", "dog1.jpg"], ["cat", "dog"])   # now, or one at a time, for years\n'
        'clf.predict(["unknown.jpg"])</pre>'
    )
