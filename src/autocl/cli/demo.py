"""`autocl demo` from the command line."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
import tyro
from rich.console import Console

from autocl import __version__, zoo
from autocl.demo import live, page
from autocl.demo.contest import Standing, contestants, digit_streams, play, scenario_for
from autocl.demo.mistakes import mistakes
from autocl.demo.table import watch
from autocl.errors import InputError
from autocl.evaluation.weights import record_film
from autocl.learner.fast import Learner
from autocl.learner.find import learner_file, title_of
from autocl.methods.incontext import InContext

WANTED = ("split-class", "everyday")
HELP = """usage: autocl demo [--train] [--learner NAME_OR_PATH ...] [--shots N] [--runs N] [--out DIR]

Real handwritten digits (scikit-learn's), five tasks of two classes, learned one after the other by the
shipped learners and, from the same demos, by Adam, EWC and nearest class mean. Writes DIR/index.html. No
download.

  --train     first meta-train the `quick` learner here and now, with and without the backward terms
  --learner   other learners: names in the zoo or files                   (default: split-class everyday)
  --shots     demos per class                                             (default: 15)
  --runs      independent choices of demos, averaged                      (default: 5)
  --out       folder of the page                                          (default: demo)

examples:
  autocl demo
  autocl demo --shots 5
  autocl demo --learner runs/mine/best.safetensors --out /tmp/mine
  autocl demo --train                                         forgetting appears and disappears; some minutes
"""


@dataclass(frozen=True, kw_only=True)
class Options:
    """What `autocl demo` takes."""

    train: bool = False
    learner: tuple[str, ...] = ()
    shots: int = 15
    runs: int = 5
    out: Path = Path("demo")


def main(args: Sequence[str]) -> None:
    """Run `autocl demo` with these arguments."""
    if any(a in ("-h", "--help") for a in args):
        print(HELP)
        return
    options = tyro.cli(Options, args=list(args), prog="autocl demo")
    console = Console()
    sections = live.show(console, options.out) if options.train else []
    learners = _learners(options.learner, console)
    path = options.out / "index.html"
    sections += _digits(learners, options, console)
    page.write_page(path, "Ten digits, learned two at a time", sections)
    console.print(f"the page is {path.resolve()}", soft_wrap=True, highlight=False)


def _learners(chosen: Sequence[str], console: Console) -> dict[str, Learner]:
    """Learners by the names they have in the table."""
    if not chosen:
        there = zoo.names()
        chosen = [name for name in WANTED if name in there] or there
        if not chosen:
            raise InputError(
                "no learner ships with this checkout yet: meta-train one (autocl train quick) and pass its "
                "file, autocl demo --learner runs/…/best.safetensors"
            )
        if missing := [name for name in WANTED if name not in chosen]:
            console.print(f"not shipped: {', '.join(missing)}; going with {', '.join(chosen)}")
    found = {}
    for name in chosen:
        with learner_file(name) as file:
            found[title_of(file)] = Learner.from_pretrained(file)
    return found


def _digits(learners: Mapping[str, Learner], options: Options, console: Console) -> list[tuple[str, str]]:
    """Play the contest and tell it in sections of the page."""
    scenario = scenario_for(learners)
    streams = digit_streams(scenario, shots=options.shots, runs=options.runs)
    tasks = [f"{2 * t}/{2 * t + 1}" for t in range(len(streams[0].tasks))]
    entered = contestants(learners)
    question = "which of the ten digits" if scenario == "class" else "even or odd"
    setting = (
        f"{options.shots} demos of each digit, {options.runs} runs with other demos, the same "
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
    if first.learner.config.mixer == "srwm":
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
        name, cost = standing.contestant.name, standing.contestant.method.cost()
        costs.append(f"{name}: {cost.gradient_steps} gradient steps, {cost.state_bytes:,} bytes kept")
    return (
        f"<p>autocl {__version__}, torch {torch.__version__}, {torch.get_num_threads()} threads; the contest "
        f"took {seconds:.0f} s. {'; '.join(costs)}.</p><p>On your own images:</p>"
        "<pre>from autocl.estimator.classifier import ContinualClassifier\n\n"
        'clf = ContinualClassifier("everyday")\n'
        'clf.partial_fit(["cat1.jpg", "dog1.jpg"], ["cat", "dog"])   # now, or one at a time, for years\n'
        'clf.predict(["unknown.jpg"])</pre>'
    )
