"""Runs in forked processes that can be killed, without paying for an import of torch each time.

Started as a script by test_killed_runs.py, so that pytest itself is never forked:
    python forked_runs.py kill FOLDER KILLS SEED      one run, killed KILLS times
    python forked_runs.py disk FOLDER                 one run whose disk is full from the sixth step on
    python forked_runs.py ranks FOLDER DIES           two ranks; with DIES > 0 the second dies at that step
    python forked_runs.py means FOLDER                two ranks that train a learner of class means
"""

import os
import random
import resource
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch
from tiny import tiny, without_dropout

from autocl.cli import train as commands
from autocl.cli.main import main as command_line
from autocl.encoders import EncoderConfig
from autocl.learner import ReadoutLearnerConfig
from autocl.objective import ObjectiveConfig
from autocl.training import trainer
from autocl.training.recipe import Recipe, Validation
from autocl.training.step import StepResult
from autocl.training.trainer import train

LONG = tiny(steps=24, validation=Validation(every=7, batches=1), carry_state=1)
SHARED = without_dropout(steps=8, carry_state=1, seed=2, validation=Validation(every=3, batches=1))
"""This seed has no query so near a tie that the order of summation decides its answer."""


MEANS = replace(
    SHARED,
    carry_state=0,
    learner=ReadoutLearnerConfig(
        n_classes=2, channels=1, height=16, width=16, encoder=EncoderConfig(width=4, dropout=0.0)
    ),
    objective=ObjectiveConfig(boundaries="last"),
    # Distances to means ignore a shift of all features: the biases' gradient is rounding, which Adam's usual
    # eps would blow up to full steps.
    optimiser=replace(SHARED.optimiser, eps=1e-3),
)
"""A learner of another kind, judged at the last boundary."""


def fork(work: Callable[[], object]) -> int:
    """Do the work in a child that shares nothing but the imports; returns its process number."""
    sys.stdout.flush()
    child = os.fork()
    if child:
        return child
    status = 1
    try:
        work()
        status = 0
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else 1
    finally:
        sys.stderr.flush()
        os._exit(status)


def steps_logged(folder: Path) -> int:
    log = folder / "log.jsonl"
    return log.read_bytes().count(b'"loss"') if log.exists() else 0


def killed_run(folder: Path, kills: int, seed: int) -> None:
    """Kill the run at random moments, among them the writing of a checkpoint (one is written every step)."""
    rng = random.Random(seed)
    targets = sorted(rng.randrange(LONG.steps - 2) for _ in range(kills))
    moments = []
    for target in targets:
        resume = (folder / "recipe.json").exists()
        child = fork(lambda r=resume: train(LONG, folder, resume=r, save_every=0.0))
        while steps_logged(folder) <= target:
            if os.waitpid(child, os.WNOHANG)[0]:
                raise SystemExit("the run ended before it could be killed")
            time.sleep(0.0005)
        time.sleep(rng.random() * 0.02)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        moments.append(steps_logged(folder))
    _, status = os.waitpid(fork(lambda: train(LONG, folder, resume=True, save_every=0.0)), 0)
    print("killed after steps", moments)
    sys.exit(os.waitstatus_to_exitcode(status))


def full_disk(folder: Path) -> None:
    """Let every write beyond the first kilobyte of a file fail, as it does on a full disk."""
    real = trainer.train_step

    def filling(run: trainer.Run, module: torch.nn.Module, step: int) -> StepResult:
        if step == 5:
            resource.setrlimit(resource.RLIMIT_FSIZE, (1000, resource.RLIM_INFINITY))
        return real(run, module, step)

    trainer.train_step = filling
    commands.get_recipe = lambda name: tiny()
    command_line(["train", "tiny", "--out", str(folder)])


def rank(number: int, port: int, folder: Path, recipe: Recipe, dies: int) -> Callable[[], object]:
    """One of two ranks, started as torchrun would; the second kills itself at step `dies`."""

    def work() -> None:
        os.environ |= {
            "RANK": str(number), "LOCAL_RANK": str(number), "WORLD_SIZE": "2",
            "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port),
        }  # fmt: skip
        if dies and number == 1:
            real = trainer.train_step

            def dying(run: trainer.Run, module: torch.nn.Module, step: int) -> StepResult:
                if step == dies:
                    os.kill(os.getpid(), signal.SIGKILL)
                return real(run, module, step)

            trainer.train_step = dying
        commands.get_recipe = lambda name: recipe
        command_line(["train", recipe.name, "--out", str(folder), "--device", "cpu"])

    return work


def two_ranks(folder: Path, dies: int, recipe: Recipe) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    children = [fork(rank(number, port, folder, recipe, dies)) for number in (0, 1)]
    print("exits", *(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children))


if __name__ == "__main__":
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as scratch:
        train(tiny(steps=1), scratch)  # the children inherit the compiled kernels
    mode, folder, *numbers = sys.argv[1:]
    if mode == "kill":
        killed_run(Path(folder), *map(int, numbers))
    elif mode == "disk":
        full_disk(Path(folder))
    elif mode == "means":
        two_ranks(Path(folder), 0, MEANS)
    else:
        dies = int(numbers[0])
        two_ranks(Path(folder), dies, tiny(steps=8) if dies else SHARED)
