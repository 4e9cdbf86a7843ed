"""What is recorded between boundaries agrees with what is known at them."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from known_methods import coded_set, small_learner

from autocl.baselines.incontext import InContext
from autocl.data.eval_streams import split_stream
from autocl.errors import FileError, InputError
from autocl.evaluation.emergence import read_emergence
from autocl.evaluation.trace import record_film, trace
from autocl.ops.srwm.naive import step
from autocl.passage import run_streams

SETS = coded_set("mnist", "train"), coded_set("mnist", "test")
STREAMS = [split_stream(*SETS, scenario="class", shots=4, run=r, tasks=3) for r in range(2)]


def test_a_trace_has_the_matrix_at_its_boundaries() -> None:
    method = InContext(small_learner(6))
    matrix = run_streams(method, STREAMS, forward=True).matrix.values
    traced = trace(method, STREAMS, every=3)
    assert traced.demos.tolist() == [0, 3, 6, 8, 11, 14, 16, 19, 22, 24]
    assert traced.learned.tolist() == [3, 6, 9]
    assert traced.few.tolist() == [1, 4, 7]
    assert torch.equal(traced.accuracy[:, traced.learned], matrix)
    assert traced.stability_gap().shape == (2,)
    few = traced.accuracy[:, [1, 4, 7], [0, 1, 2]]
    assert torch.allclose(traced.learning_acceleration(), (few[:, 1:] - few[:, :1]).mean(1))
    with pytest.raises(InputError, match="every"):
        trace(method, STREAMS, every=0)


@pytest.mark.parametrize("changes", [{}, {"norm": "pre"}, {"labels": "delayed"}])
def test_a_film_ends_in_the_state_and_its_rates_are_those_of_the_definition(changes: dict) -> None:  # type: ignore[type-arg]
    learner = small_learner(6, **changes)
    film = record_film(learner, STREAMS[0])
    method = InContext(learner)
    run_streams(method, STREAMS[:1])
    assert learner.training
    assert film.boundaries == (8, 16, 24)
    assert film.weights.shape[:3] == (25, 2, 2)
    for i, key in enumerate(["0.W", "2.W"]):
        torch.testing.assert_close(film.weights[-1, i], method.state.tensors[key][0])
        torch.testing.assert_close(film.weights[0, i], learner.initial_state().tensors[key][0].detach())
    assert film.rates.shape == (24, 2, 2, 4)
    assert ((film.rates > 0) & (film.rates < 1)).all()
    if not changes:
        # Recompute the first step of the first layer by the paper's equations.
        demo = STREAMS[0].tasks[0]
        learner.eval()
        f = learner.encode(demo.sets[0].take(demo.demos[:, :1], channels=1))
        u = learner._embed(f, demo.demo_labels[:, :1]).view(1, 2, 8)
        W = film.weights[:1, 0]
        torch.testing.assert_close(step(W, u)[1], film.weights[1:2, 0])
        torch.testing.assert_close(film.rates[0, 0], torch.einsum("hrd,hd->hr", W[0, :, 24:], u[0]).sigmoid())


def test_change_and_rank_by_hand() -> None:
    film = record_film(small_learner(6), STREAMS[0])
    assert [film.block(b).shape[-2] for b in ("y", "q", "k", "β")] == [8, 8, 8, 4]
    whole = film.weights.diff(dim=0).flatten(-2).norm(dim=-1)
    torch.testing.assert_close(film.change().square().sum(-1).sqrt(), whole)
    eye = type(film)(
        weights=torch.eye(28, 8).expand(2, 1, 1, 28, 8),
        rates=film.rates,
        labels=film.labels,
        boundaries=(1,),
        tasks=("a",),
    )
    assert eye.effective_rank().flatten().tolist() == pytest.approx([8.0, 8.0])
    with pytest.raises(InputError, match="'z'"):
        film.block("z")


def test_a_learner_without_self_modifying_weights_has_no_film() -> None:
    with pytest.raises(InputError, match="needs one with mixer 'srwm'"):
        record_film(small_learner(6, mixer="delta"), STREAMS[0])


def write_log(folder: Path, *, second_at: int = 50) -> None:
    lines = []
    for s in range(100):
        omniglot, mini = (1.6 if s < 20 else 0.2), (1.6 if s < second_at else 0.9)
        first, second = ("omniglot", "mini") if s % 2 == 0 else ("mini", "omniglot")
        own = {"omniglot": omniglot, "mini": mini}
        lines.append({"step": s, f"term/{first}/1/own": own[first], f"term/{second}/2/own": own[second],
                      f"term/{first}/1/back": 2 - own[first], "loss": 1.0})  # fmt: skip
    (folder / "log.jsonl").write_text("\n".join(json.dumps(x) for x in lines) + "\n")


def test_emergence_has_six_curves_and_knows_what_was_learned_first(tmp_path: Path) -> None:
    write_log(tmp_path)
    (tmp_path / "recipe.json").write_text('{"objective": {"acl": false}}')
    found = read_emergence(tmp_path, points=50)
    assert len(found.curves) == 6
    assert sum(c.backward for c in found.curves) == 2
    assert found.acl is False
    assert found.learned_at() == {"omniglot": 20.0, "mini": 51.0}
    curve = next(c for c in found.curves if c.label == "omniglot, position 1")
    assert list(curve.steps) == list(range(0, 100, 2))
    assert np.allclose(curve.losses, np.where(np.array(curve.steps) < 20, 1.6, 0.2))
    assert json.loads(json.dumps(found.to_dict()))["learned_at"]["omniglot"] == 20.0
    thin = read_emergence(tmp_path, points=5)
    assert [len(c.steps) for c in thin.curves] == [5] * 6


def test_logs_that_are_none_are_named(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="no such log"):
        read_emergence(tmp_path)
    log = tmp_path / "log.jsonl"
    log.write_text('{"step": 1, "loss": 2}\n')
    with pytest.raises(FileError, match="no loss terms"):
        read_emergence(log)
    log.write_text('{"step": 1}\nnonsense\n')
    with pytest.raises(FileError, match="line 2"):
        read_emergence(log)
