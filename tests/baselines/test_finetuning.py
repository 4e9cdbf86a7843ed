"""What every method that is trained by gradient descent promises, and what sets single ones apart."""

import json

import pytest
import torch

from autocl.baselines.base import StreamInfo, get_method, method_names
from autocl.baselines.embedding import Embedding
from autocl.baselines.finetuning import DEMOS, Joint, Rehearsal
from autocl.baselines.regularisation import LwF
from autocl.data.stream import side_by_side
from autocl.encoders import Identity
from autocl.errors import InputError
from autocl.passage import run_streams

NAMES = ["adagrad", "adam", "ewc", "joint", "l2", "lwf", "mas", "online-ewc", "rehearsal", "sgd", "si"]
SMALL = {"hidden": (16, 16), "batch": 8}


def through(method, runs, seeds=None):
    """Take a method through the streams; accuracies [boundaries, tasks, runs]."""
    stream = side_by_side(runs)
    method.begin(StreamInfo.of(stream, seeds=seeds or range(len(runs))))
    rows = []
    for task in stream.tasks:
        method.learn(task)
        rows.append(torch.stack([accuracy(method, t) for t in runs[0].tasks]))
    return torch.stack(rows)


def accuracy(method, task):
    return (method.predict(task.query_set, task.queries[0]).argmax(-1) == task.query_labels).float().mean(-1)


def test__registry__knows_the_rows_of_the_table():
    assert set(NAMES) <= set(method_names())
    with pytest.raises(InputError, match="there is no method 'emc'"):
        get_method("emc")
    with pytest.raises(InputError, match="'adam' cannot be built"):
        get_method("adam", strength=1.0)
    with pytest.raises(InputError, match="diet"):
        get_method("adam", diet="crumbs")
    with pytest.raises(InputError, match="epochs must be at least 1, got 0"):
        get_method("adam", epochs=0)
    with pytest.raises(InputError, match="lr must be greater than 0, got 0"):
        get_method("adam", lr=0.0)


@pytest.mark.parametrize("name", NAMES)
def test__learn__masters_the_first_task_and_predict_is_pure(name, streams):
    runs = streams("class")
    method = get_method(name, **SMALL, epochs=12)
    method.begin(StreamInfo.of(side_by_side(runs), seeds=(0, 1)))
    method.learn(side_by_side(runs).tasks[0])
    task = runs[0].tasks[0]
    first = method.predict(task.query_set, task.queries[0])
    assert first.shape == (2, 48, 6)
    assert torch.isneginf(first[..., 2:]).all()
    assert torch.isfinite(first[..., :2]).all()
    assert torch.equal(first, method.predict(task.query_set, task.queries.expand(2, -1)))
    assert (accuracy(method, task) > 0.9).all()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("diet", ["full", "demos"])
def test__runs_side_by_side__equal_runs_one_by_one(name, diet, streams):
    runs = streams("domain", runs=3)
    together = get_method(name, diet=diet, **SMALL)
    through(together, runs, seeds=(5, 6, 7))
    alone = get_method(name, diet=diet, **SMALL)
    through(alone, runs[1:2], seeds=(6,))
    torch.testing.assert_close(together.stack.flat[1:2], alone.stack.flat, rtol=1e-4, atol=1e-5)
    assert together.cost() == alone.cost()


@pytest.mark.parametrize("name", NAMES)
def test__evaluation__gives_a_run_the_same_bits_whatever_its_neighbours(name, streams):
    runs = streams("domain", runs=3)
    weights = {}
    for count in (1, 3):
        method = get_method(name, hidden=(32, 32), batch=7, epochs=4, diet="demos")
        matrix = run_streams(method, runs[-count:], seeds=(5, 6, 7)[-count:]).matrix.values[-1]
        weights[count] = method.stack.flat[-1], matrix.nan_to_num(-1)
    for alone, together in zip(weights[1], weights[3], strict=True):
        assert torch.equal(alone, together)


def test__begin__starts_afresh(streams):
    method = get_method("rehearsal", **SMALL)
    first = through(method, streams())
    assert torch.equal(first, through(method, streams()))


def test__adam__forgets_and_joint_and_rehearsal_do_not(streams):
    runs = streams("class")
    names = ("adam", "joint", "rehearsal")
    last = {name: through(get_method(name, **SMALL, epochs=30), runs)[-1] for name in names}
    assert last["adam"][0].mean() < 0.5
    assert last["joint"].mean() > 0.9
    assert last["rehearsal"].mean() > 0.9


def test__cost__counts_by_hand(streams):
    runs = streams("class")
    method = get_method("ewc", **SMALL)
    through(method, runs)
    images = runs[0].tasks[0].train.shape[1]
    cost = method.cost()
    assert cost.examples == 3 * 4 * images
    assert cost.gradient_steps == 3 * 4 * -(-images // 8)
    parameters = 65 * 16 + 17 * 16 + 17 * 6
    # Weights, two moments of Adam, anchor and importance.
    assert cost.state_bytes == 4 * 5 * parameters


def test__demos_diet__sees_the_demos_only(streams):
    runs = streams("class")
    method = get_method("adam", diet="demos", **SMALL)
    through(method, runs)
    assert method.cost().examples == 3 * 4 * 8
    assert method.cost().gradient_steps == 3 * 4


def test__schedules__are_hsus_on_all_images_and_searched_on_demos():
    assert set(DEMOS) == set(NAMES)
    for name in NAMES:
        assert get_method(name).schedule("class") == (4, 128)
        assert get_method(name, diet="demos").schedule("domain") == DEMOS[name]["domain"]
    assert get_method("sgd", diet="demos", epochs=7).schedule("domain") == (7, 8)
    assert get_method("sgd").settings() != get_method("sgd", batch=64).settings()


def test__lwf__targets_are_the_old_networks_softened_answers(streams):
    runs = streams("class")
    method = LwF(**SMALL, temperature=3.0)
    method.begin(StreamInfo.of(side_by_side(runs), seeds=(0, 1)))
    method.learn(side_by_side(runs).tasks[0])
    old = method.stack.flat.clone()
    method.learn(side_by_side(runs).tasks[1])
    x = torch.randn(2, 5, 64)
    raw = method.stack.with_weights(old).forward(x.clone())[-1]
    targets = torch.zeros(2, 5, 6)
    targets[..., :2] = (raw[..., :2] / 3).softmax(-1)
    method.taught = torch.tensor([True, True, False, False, False, False])
    torch.testing.assert_close(method.targets(x.clone()), targets)
    logits, labels = torch.randn(2, 5, 6), torch.full((2, 5), 3)
    own = -logits[..., :4].log_softmax(-1)[..., 3].mean(1)
    distilled = -(targets[..., :4] * (logits[..., :4] / 3).log_softmax(-1)).sum(-1).mean(1)
    torch.testing.assert_close(method._loss(x, logits, labels), own / 2 + distilled / 2)


def test__rehearsal__keeps_equally_many_of_each_task(streams):
    runs = streams("class")
    method = Rehearsal(**SMALL, memory=10)
    through(method, runs)
    assert [s.index.shape[1] for s in method.kept] == [3, 3, 3]
    for share, task in zip(method.kept, runs[0].tasks, strict=True):
        assert set(share.index[0].tolist()) <= set(task.train[0].tolist())
        assert set(share.labels[0].tolist()) <= set(task.train_labels[0].tolist())
    with pytest.raises(InputError, match="memory must be at least 1"):
        Rehearsal(memory=0)


def test__joint__keeps_and_counts_everything(streams):
    runs = streams("class")
    method = Joint(**SMALL)
    through(method, runs)
    images = sum(t.train.shape[1] for t in runs[0].tasks)
    assert sum(s.index.shape[1] for s in method.kept) == images
    assert method.cost().state_bytes > images * 64 * 4


def test__method_that_has_not_begun__says_so(streams):
    task = streams()[0].tasks[0]
    for method in (
        get_method("ewc"),
        get_method("knn", embedding=Embedding(Identity(n_features=64), channels=1)),
    ):
        with pytest.raises(InputError, match="has not begun: call begin"):
            method.learn(task)
        with pytest.raises(InputError, match="has not begun: call begin"):
            method.predict(task.query_set, task.queries[0])
        with pytest.raises(InputError, match="has not begun: call begin"):
            method.cost()


def test__streams_of_different_form__are_refused(streams):
    with pytest.raises(InputError, match="must agree on scenario"):
        side_by_side([streams("class")[0], streams("domain")[0]])
    with pytest.raises(InputError, match="one seed for each"):
        StreamInfo.of(side_by_side(streams()), seeds=(0,))
    method = get_method("adam", **SMALL)
    method.begin(StreamInfo.of(side_by_side(streams()), seeds=(0, 1)))
    with pytest.raises(InputError, match="begin was told of 2"):
        method.learn(streams()[0].tasks[0])
    with pytest.raises(InputError, match="index has rows for 3 runs"):
        method.predict(streams()[0].tasks[0].query_set, torch.zeros(3, 4, dtype=torch.int64))


def test__settings__are_plain_data_that_tell_methods_apart(streams):
    method = get_method("ewc", strength=3.0)
    before = method.settings()
    assert before["strength"] == 3.0
    assert before["hidden"] == (400, 400)
    through(get_method("ewc", **SMALL), streams())
    method.begin(StreamInfo.of(side_by_side(streams()), seeds=(0, 1)))
    assert method.settings() == before
    assert json.loads(json.dumps(before))["diet"] == "full"
