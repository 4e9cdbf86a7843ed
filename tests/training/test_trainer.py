"""The loop: what it writes, when it stops, and what it refuses before and during a run."""

import json
import os
import shutil
import signal
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from tiny import LEARNER, assert_same_run, lines, tiny, without_dropout

from autocl.data.stream_config import RandomStreamConfig
from autocl.errors import FileError, InputError, TrainingError
from autocl.files import read_tensors, write_tensors
from autocl.learner import Learner
from autocl.learner.find import find_learner
from autocl.objective import ObjectiveConfig, acl_objective
from autocl.training import checkpoint, parallel, trainer
from autocl.training import step as step_module
from autocl.training.log import RunLog
from autocl.training.recipe import Optimiser, Source
from autocl.training.run import InterruptedRunError, prepare
from autocl.training.step import TrainingStep, train_step
from autocl.training.trainer import train

ALONE = parallel.Ranks(rank=0, world=1, device=torch.device("cpu"))


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.set_num_threads(1)
    folder = tmp_path_factory.mktemp("finished")
    train(tiny(), folder)
    return folder


def progress_of(folder: Path) -> dict[str, float]:
    return json.loads(read_tensors(folder / checkpoint.FILE_NAME, kind="checkpoint")[1]["progress"])


def test_a_run_leaves_recipe_log_last_and_best(finished: Path) -> None:
    assert sorted(p.name for p in finished.iterdir()) == [
        ".lock", "best.safetensors", "data.json", "good.safetensors", "last.safetensors", "log.jsonl",
        "recipe.json",
    ]  # fmt: skip
    assert progress_of(finished)["step"] == 12
    learner = Learner.from_pretrained(finished / "best.safetensors")
    assert learner.config == LEARNER
    assert not learner.training


def test_the_log_has_every_term_apart_and_validations_with_backward_transfer(finished: Path) -> None:
    log = lines(finished)
    steps = [line for line in log if "loss" in line]
    assert [line["step"] for line in steps] == list(range(12))
    assert set(steps[0]) == {
        "step", "loss", "gradient", "rate", "term/glyphs/1/own", "term/glyphs/1/back", "term/glyphs/2/own",
        "accuracy/glyphs/1/own", "accuracy/glyphs/1/back", "accuracy/glyphs/2/own",
    }  # fmt: skip
    validations = [line for line in log if "validation/score" in line]
    assert [line["step"] for line in validations] == [0, 4, 8, 12]
    (first, none), (again, second) = validations[-1]["validation/matrix"]
    assert none is None
    assert validations[-1]["validation/score"] == pytest.approx((again + second) / 2)
    assert validations[-1]["validation/backward"] == pytest.approx(again - first)
    rates = [tiny().optimiser.rate(s, steps=12, width=16) for s in range(12)]
    assert [line["rate"] for line in steps] == rates


def test_the_best_learner_is_the_one_validation_liked_best(finished: Path) -> None:
    scores = {x["step"]: x["validation/score"] for x in lines(finished) if "validation/score" in x}
    progress = progress_of(finished)
    assert progress["best_score"] == max(scores.values())
    assert progress["best_step"] == min(s for s, v in scores.items() if v == max(scores.values()))
    _, meta = read_tensors(finished / "best.safetensors", kind="learner")
    assert meta["step"] == str(progress["best_step"])


def test_the_same_seed_gives_the_same_run_and_another_seed_does_not(finished: Path, tmp_path: Path) -> None:
    train(tiny(), tmp_path / "again")
    assert_same_run(finished, tmp_path / "again")
    train(tiny(seed=2), tmp_path / "other")
    assert lines(finished) != lines(tmp_path / "other")


def test_resuming_a_finished_run_changes_nothing(finished: Path, tmp_path: Path) -> None:
    shutil.copytree(finished, tmp_path / "run")
    assert train(tiny(), tmp_path / "run", resume=True) == tmp_path / "run" / "best.safetensors"
    assert_same_run(finished, tmp_path / "run")


def stop_at(monkeypatch: pytest.MonkeyPatch, step: int) -> None:
    """Let the machine fail at a step."""
    real = train_step

    def failing(run, module, at):
        if at == step:
            raise MemoryError
        return real(run, module, at)

    monkeypatch.setattr(trainer, "train_step", failing)


def stopped_run(recipe, folder: Path, step: int, *, save_every: float = 0.0) -> None:
    with pytest.MonkeyPatch.context() as patch:
        stop_at(patch, step)
        with pytest.raises(MemoryError):
            train(recipe, folder, save_every=save_every)


@pytest.mark.parametrize("save_every", [0.0, 1e9], ids=["at-the-last-step", "steps-before"])
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"carry_state": 2},
        {"streams": RandomStreamConfig(max_tasks=3, max_ways=2, max_shots=2, n_outputs=4, query_images=2,
                                 pool_classes=6, pool_images=4),
         "learner": replace(LEARNER, n_classes=4)},
    ],
    ids=["plain", "carried", "random-shapes"],
)  # fmt: skip
def test_a_stopped_run_resumes_bit_for_bit(tmp_path: Path, changes: dict, save_every: float) -> None:
    recipe = tiny(**changes)
    train(recipe, tmp_path / "whole")
    stopped_run(recipe, tmp_path / "parts", 7, save_every=save_every)
    assert progress_of(tmp_path / "parts")["step"] == (7 if save_every == 0 else 4)
    train(recipe, tmp_path / "parts", resume=True)
    assert_same_run(tmp_path / "whole", tmp_path / "parts")


def test_a_run_without_a_checkpoint_yet_starts_anew_on_resuming(finished: Path, tmp_path: Path) -> None:
    shutil.copy(finished / "recipe.json", tmp_path)
    train(tiny(), tmp_path, resume=True)
    assert_same_run(finished, tmp_path)


def test_resuming_needs_a_run_and_its_own_recipe(finished: Path, tmp_path: Path) -> None:
    with pytest.raises(FileError, match="is not a run"):
        train(tiny(), tmp_path, resume=True)
    before = (finished / "last.safetensors").read_bytes()
    other = tiny(seed=5, objective=ObjectiveConfig(acl=False))
    with pytest.raises(TrainingError, match=r"objective\.acl: False, not True; seed: 5, not 1"):
        train(other, finished, resume=True)
    assert (finished / "last.safetensors").read_bytes() == before


def test_a_run_is_not_overwritten(finished: Path) -> None:
    with pytest.raises(TrainingError, match="--resume, or choose another --out"):
        train(tiny(), finished)


@pytest.mark.parametrize("damage", ["cut", "text", "other kind", "other learner", "no progress"])
def test_a_damaged_checkpoint_is_named(finished: Path, tmp_path: Path, damage: str) -> None:
    folder = tmp_path / "run"
    shutil.copytree(finished, folder)
    file = folder / "last.safetensors"
    match damage:
        case "cut":
            file.write_bytes(file.read_bytes()[:-100])
        case "text":
            file.write_text("hello")
        case "other kind":
            shutil.copy(folder / "best.safetensors", file)
        case "other learner":
            run = prepare(tiny(learner=replace(LEARNER, model_width=32)), folder, ALONE)
            checkpoint.save(folder, run.learner, run.optimiser, run.progress, None)
        case "no progress":
            tensors, _ = read_tensors(file, kind="checkpoint")
            write_tensors(file, tensors, {"kind": "checkpoint", "progress": '{"stepp": 3}'})
    with pytest.raises(FileError, match=r"last\.safetensors"):
        train(tiny(), folder, resume=True)


def test_a_folder_that_cannot_be_written_is_reported_before_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop_at(monkeypatch, 0)
    (tmp_path / "file").touch()
    with pytest.raises(TrainingError, match=r"cannot write to .*choose another --out"):
        train(tiny(), tmp_path / "file" / "run")


def test_a_full_disk_is_reported_before_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stop_at(monkeypatch, 0)
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: SimpleNamespace(free=1000))
    with pytest.raises(TrainingError, match="free some space"):
        train(tiny(), tmp_path)
    assert [p.name for p in tmp_path.iterdir()] == [".lock"]


def poison(monkeypatch: pytest.MonkeyPatch, step: int, loss) -> None:
    """Replace the prototype loss from the given step on."""
    calls = iter(range(10**6))
    real = step_module.prototype_loss
    monkeypatch.setattr(
        step_module, "prototype_loss", lambda f, c: loss(f) if next(calls) >= step else real(f, c)
    )


@pytest.mark.parametrize(
    ("loss", "what"),
    [
        (lambda f: f.sum() * float("nan"), "the loss became nan"),
        (lambda f: f.sum() * 0 + float("inf"), "the loss became inf"),
        # Finite, but its derivative is not: x^(1/2) at 0.
        (lambda f: (f - f.detach()).abs().sqrt().sum(), "the norm of the gradient became"),
    ],
    ids=["nan", "infinite", "gradient"],
)
def test_a_diverging_run_stops_and_names_step_seed_and_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, loss, what: str
) -> None:
    poison(monkeypatch, 6, loss)
    pattern = rf"{what}.* at step 6 \(seed 1\); the run is back at step [04]\. .*lower --optimiser\.lr"
    with pytest.raises(TrainingError, match=pattern):
        train(tiny(), tmp_path, save_every=0.0)
    tensors, _ = read_tensors(tmp_path / "last.safetensors", kind="checkpoint")
    assert progress_of(tmp_path)["step"] in (0, 4)
    assert all(torch.isfinite(t).all() for t in tensors.values())


def test_a_signal_saves_and_stops(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = train_step

    def interrupted(run, module, at):
        if at == 5:
            os.kill(os.getpid(), signal.SIGTERM)
        return real(run, module, at)

    before = signal.getsignal(signal.SIGTERM)
    monkeypatch.setattr(trainer, "train_step", interrupted)
    with pytest.raises(InterruptedRunError) as stop:
        train(tiny(), tmp_path)
    assert stop.value.signum == signal.SIGTERM
    assert progress_of(tmp_path)["step"] == 6
    assert signal.getsignal(signal.SIGTERM) is before


def test_carried_state_is_one_long_pass(tmp_path: Path) -> None:
    # No gradient crosses the batches, and with a learning rate of zero the weights stay: the second batch
    # must measure exactly what the second half of one long stream does.
    recipe = without_dropout(carry_state=1, optimiser=Optimiser(lr=0.0), prototype=0.0)
    run = prepare(recipe, tmp_path, ALONE)
    results = [train_step(run, TrainingStep(run.learner, recipe), step) for step in range(3)]
    batches = [run.train.batch(step) for step in range(3)]
    features = [run.learner.encode(run.train.images(b)) for b in batches]
    shift = len(batches[0].pool)

    def moved(task):
        return replace(task, demos=task.demos + shift, queries=task.queries + shift)

    whole = replace(batches[0], tasks=(*batches[0].tasks, *map(moved, batches[1].tasks)))
    with torch.no_grad():
        long = acl_objective(run.learner, torch.cat(features[:2]), whole, recipe.objective)
        fresh = acl_objective(run.learner, features[2], batches[2], recipe.objective)
    torch.testing.assert_close(results[1].outcome.losses.values, long.losses.values[2:, 2:], equal_nan=True)
    for name, tensor in long.state.tensors.items():
        torch.testing.assert_close(results[1].outcome.state.tensors[name], tensor)
    # carry_state=1 hands on once; the third batch starts afresh.
    torch.testing.assert_close(results[2].outcome.losses.values, fresh.losses.values, equal_nan=True)


def test_encoding_in_bfloat16_changes_little_and_keeps_the_state_in_float32(tmp_path: Path) -> None:
    results = {}
    for bf16 in (False, True):
        recipe = without_dropout(bf16=bf16)
        run = prepare(recipe, tmp_path, ALONE)
        results[bf16] = train_step(run, TrainingStep(run.learner, recipe), 0)
    assert results[True].loss == pytest.approx(results[False].loss, rel=0.05)
    assert results[True].loss != results[False].loss
    assert {t.dtype for t in results[True].outcome.state.tensors.values()} == {torch.float32}


def test_finetuning_with_another_number_of_classes_keeps_what_is_common(tmp_path: Path) -> None:
    torch.manual_seed(3)
    old = Learner(LEARNER)
    file = old.save_pretrained(tmp_path / "old.safetensors")
    recipe = tiny(learner=replace(LEARNER, n_classes=3), init_from=str(file))
    new = prepare(recipe, tmp_path, ALONE).learner
    F = old.encoder.n_features
    assert torch.equal(new.input.weight[:, : F + 2], old.input.weight[:, : F + 2])
    assert torch.equal(new.input.weight[:, -1], old.input.weight[:, -1])
    assert torch.equal(new.head.weight[:2], old.head.weight[:2])
    assert torch.equal(new.layers[0].W, old.layers[0].W)
    # The checkpoint has all it needs: the run goes on when the file it began with is gone.
    train(recipe, tmp_path / "whole")
    stopped_run(recipe, tmp_path / "parts", 5)
    file.unlink()
    train(recipe, tmp_path / "parts", resume=True)
    assert_same_run(tmp_path / "whole", tmp_path / "parts")


def test_finetuning_starts_from_a_shipped_learner_by_name(tmp_path: Path) -> None:
    shipped = find_learner("quick")
    recipe = tiny(learner=replace(shipped.config, n_classes=7), init_from="quick")
    new = prepare(recipe, tmp_path, ALONE).learner
    assert torch.equal(new.layers[0].W, shipped.layers[0].W)
    assert new.head.weight.shape[0] == 7


def test_finetuning_adds_a_read_out_that_the_learner_lacks(tmp_path: Path) -> None:
    torch.manual_seed(3)
    old = Learner(replace(LEARNER, readout="linear"))
    file = old.save_pretrained(tmp_path / "linear.safetensors")
    new = prepare(tiny(init_from=str(file)), tmp_path, ALONE).learner
    assert new.readout is not None
    weights = new.state_dict()
    assert all(torch.equal(weights[name], value) for name, value in old.state_dict().items())


def test_finetuning_from_a_learner_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    file = Learner(replace(LEARNER, model_width=32)).save_pretrained(tmp_path / "wide.safetensors")
    with pytest.raises(TrainingError, match=r"wide\.safetensors does not fit recipe tiny: size mismatch"):
        train(tiny(init_from=str(file)), tmp_path / "run")
    with pytest.raises(InputError, match=r"none\.safetensors' is neither a name in the zoo"):
        train(tiny(init_from=str(tmp_path / "none.safetensors")), tmp_path / "run")


def test_a_log_never_grows_on_resuming(tmp_path: Path) -> None:
    (tmp_path / "log.jsonl").write_text('{"step": 0}\n')
    with RunLog(tmp_path, total=3, at=1, length=500) as log:
        log.record(1, {"loss": 2.0, "broken": float("nan")})
        assert log.length == len((tmp_path / "log.jsonl").read_bytes())
    assert lines(tmp_path) == [{"step": 0}, {"step": 1, "loss": 2.0}]


def test_two_sets_are_logged_by_name_and_position(tmp_path: Path) -> None:
    sources = (Source(name="glyphs", classes=24), Source(name="glyphs", classes=30))
    streams = replace(tiny().streams, order="alternate", first_shot=True, pool_images=5)
    train(tiny(sources=sources, streams=streams, steps=2), tmp_path)
    keys = {k for line in lines(tmp_path) for k in line}
    assert {"term/glyphs/1/first", "term/glyphs/2/first", "term/glyphs/1/back"} <= keys
