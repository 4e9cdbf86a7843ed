"""L2P and DualPrompt against transcriptions of their equations, and as methods on a tiny random ViT."""

import pytest
import torch
from dot_images import Streams, dots
from torch.nn import functional as F

from autocl.baselines.base import get_method
from autocl.baselines.prompts import DualPrompts, L2PPrompts
from autocl.encoders.vit import ViT, ViTConfig
from autocl.errors import InputError
from autocl.passage import run_streams

WIDTH = 16


@pytest.fixture(scope="module")
def vit() -> ViT:
    torch.manual_seed(0)
    return ViT(ViTConfig(image_size=8, patch=4, width=WIDTH, depth=3, heads=2)).eval().requires_grad_(False)


def gamma(a: torch.Tensor, b: torch.Tensor) -> float:
    return float((1 - a @ b / (a.norm() * b.norm())).detach())


def test_l2p__images__take_the_nearest_prompts_in_front_and_average_their_outputs(vit: ViT) -> None:
    torch.manual_seed(1)
    prompts = L2PPrompts(WIDTH, pool=6, length=2, top=3)
    images = torch.randn(4, 3, 8, 8)
    found, distances = prompts.features(vit, images, vit(images), None)
    for i, image in enumerate(images):
        q = vit(image[None])[0]
        order = sorted(range(6), key=lambda j: gamma(q, prompts.key[j]))[:3]
        sequence = torch.cat([*(prompts.prompt[j] for j in order), vit.tokens(image[None])[0]])
        expected = vit.run(sequence[None])[0, :6].mean(0)
        torch.testing.assert_close(found[i], expected)
        assert distances[i].item() == pytest.approx(sum(gamma(q, prompts.key[j]) for j in order), abs=1e-5)


@pytest.mark.parametrize("task", [None, 1])
def test_dualprompt__images__general_and_expert_prefixes_at_their_layers(vit: ViT, task: int | None) -> None:
    torch.manual_seed(2)
    prompts = DualPrompts(WIDTH, tasks=3, general=(0,), expert=(1, 2), general_length=2, expert_length=3)
    prompts.learned = 2
    images = torch.randn(4, 3, 8, 8)
    found, distances = prompts.features(vit, images, vit(images), task)
    for i, image in enumerate(images):
        q = vit(image[None])[0]
        # Keys of tasks that were not learned yet are not asked.
        t = min(range(2), key=lambda j: gamma(q, prompts.key[j])) if task is None else task
        g, e = prompts.general, prompts.expert[t]
        prefixes = {0: (g[0, 0][None], g[0, 1][None]), 1: (e[0, 0][None], e[0, 1][None]),
                    2: (e[1, 0][None], e[1, 1][None])}  # fmt: skip
        torch.testing.assert_close(found[i], vit.run(vit.tokens(image[None]), prefixes)[0, 0])
        assert distances[i].item() == pytest.approx(gamma(q, prompts.key[t]), abs=1e-5)


@pytest.mark.parametrize("name", ["l2p", "dualprompt"])
def test_prompt_methods__stream__learn_it_and_leave_the_network_alone(
    name: str, vit: ViT, streams: Streams
) -> None:
    before = {key: value.clone() for key, value in vit.state_dict().items()}
    layers = {"general": (0,), "expert": (1, 2)} if name == "dualprompt" else {}
    method = get_method(name, vit=vit, epochs=30, lr=0.02, **layers)
    passed = run_streams(method, streams("class", runs=1))
    learned = passed.matrix.values.diagonal(dim1=1, dim2=2)
    assert float(learned[0, 0]) > 0.75, "two classes of noisy patterns; chance is 0.5"
    assert float(passed.matrix.average().mean()) > 1 / 6 + 0.15
    assert passed.cost.gradient_steps == 3 * 30
    assert all(torch.equal(value, before[key]) for key, value in vit.state_dict().items())
    again = run_streams(method, streams("class", runs=1))
    assert torch.equal(torch.nan_to_num(again.matrix.values), torch.nan_to_num(passed.matrix.values))


def test_dualprompt__loss__has_no_gradient_for_experts_of_other_tasks(vit: ViT) -> None:
    prompts = DualPrompts(WIDTH, tasks=2, general=(0,), expert=(1,), general_length=2, expert_length=2)
    images = torch.randn(3, 3, 8, 8)
    f, distances = prompts.features(vit, images, vit(images), 0)
    (F.mse_loss(f, torch.zeros_like(f)) + distances.mean()).backward()
    assert prompts.expert.grad is not None
    assert prompts.key.grad is not None
    assert prompts.expert.grad[0].abs().sum() > 0
    assert prompts.key.grad[0].abs().sum() > 0
    assert not prompts.expert.grad[1].any()
    assert not prompts.key.grad[1].any()


def test_prompt_methods__other_size_and_one_channel__are_brought_to_the_networks(vit: ViT) -> None:
    method = get_method("l2p", vit=vit)
    assert method._pixels(dots("train", size=16), torch.tensor([0, 3])).shape == (2, 3, 8, 8)


def test_prompt_methods__no_network__say_what_to_give() -> None:
    with pytest.raises(InputError, match=r"'l2p' works inside a vision transformer: give one .*vit:FILE"):
        get_method("l2p")
