"""RanPAC's way against a transcription of it, on features that are given."""

import pytest
import torch
from dot_images import Streams
from torch.nn import functional as F

from autocl.baselines.base import get_method
from autocl.baselines.embedding import Embedding
from autocl.baselines.ranpac import PENALTIES, best_penalty, solve
from autocl.encoders import Identity
from autocl.errors import InputError
from autocl.passage import run_streams


def pixels() -> Embedding:
    return Embedding(Identity(n_features=64), channels=1)


def test_ranpac__stream__equals_one_solution_over_all_demos(streams: Streams) -> None:
    (stream,) = streams("class", runs=1)
    features = pixels()
    method = get_method("ranpac", embedding=features, units=50)
    passed = run_streams(method, [stream])
    random = torch.randn(64, 50, generator=torch.Generator().manual_seed(0))

    def h(task, index):
        return (F.normalize(features.take(task, index), dim=-1) @ random).relu().double()

    H = torch.cat([h(t.sets[0], t.demos[0]) for t in stream.tasks])
    Y = F.one_hot(torch.cat([t.demo_labels[0] for t in stream.tasks]), 6).double()
    W = torch.linalg.solve(H.T @ H + method._penalty * torch.eye(50, dtype=torch.float64), H.T @ Y)
    for number, task in enumerate(stream.tasks):
        answers = (h(task.sets[1], task.queries[0]) @ W).argmax(1)
        right = (answers == task.query_labels[0]).double().mean()
        assert float(passed.matrix.values[0, -1, number]) == pytest.approx(float(right), abs=0.03)
    assert passed.cost.state_bytes == 4 * (50 * 50 + 50 * 6)
    assert float(passed.matrix.average().mean()) > 0.9


@pytest.mark.parametrize("units", [8, 40])
def test_best_penalty__fewer_or_more_features_than_demos__is_that_of_the_definition(units: int) -> None:
    torch.manual_seed(0)
    h, y = torch.randn(20, units), torch.randn(20, 2)
    errors = []
    for penalty in PENALTIES:
        A = h[:16].double()
        W = torch.linalg.solve(A.T @ A + penalty * torch.eye(units), A.T @ y[:16].double()).float()
        errors.append(float((h[16:] @ W - y[16:]).square().mean()))
    assert errors[PENALTIES.index(best_penalty(h, y))] <= min(errors) * 1.01


def test_solve__singular_sums__raises_the_penalty_until_they_can_be_solved() -> None:
    gram = torch.ones(4, 4)
    W = solve(gram, torch.ones(4, 1), 1e-8)
    assert W.isfinite().all()
    assert torch.allclose(gram @ W, torch.ones(4, 1), atol=1e-2)


def test_ranpac__no_encoder__says_what_to_give() -> None:
    with pytest.raises(InputError, match="'ranpac' stands on a learner's encoder"):
        get_method("ranpac")
