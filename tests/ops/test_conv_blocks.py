import pickle

import pytest
import torch
from torch import nn

from autocl.encoders import Conv4
from autocl.estimator.exact import LONG_BLOCK
from autocl.ops.conv_blocks import ONEDNN, BlockParameters, conv_blocks, supports


def random_blocks(channels, filters, depth, dtype=torch.float64):
    """The plain definition, with norms that also turn signs around."""
    blocks = nn.Sequential()
    for i in range(depth):
        norm = nn.InstanceNorm2d(filters, affine=True)
        nn.init.normal_(norm.weight)
        nn.init.normal_(norm.bias)
        conv = nn.Conv2d(channels if i == 0 else filters, filters, 3, padding=1)
        blocks.append(nn.Sequential(conv, norm, nn.MaxPool2d(2), nn.ReLU()))
    return blocks.to(dtype)


def fused(blocks, x, dropout=0.0):
    return conv_blocks(x, (BlockParameters(*b.parameters()) for b in blocks), dropout=dropout)


@pytest.mark.parametrize(
    ("n", "channels", "filters", "depth", "size"),
    [
        (3, 3, 8, 4, (32, 32)),
        (2, 1, 5, 4, (33, 47)),
        (2, 2, 1, 2, (7, 6)),
        (70, 1, 3, 1, (28, 28)),
        (300, 1, 3, 3, (33, 30)),
    ],
    ids=["even", "odd", "one-filter", "several-chunks", "chunks-in-chunks"],
)
def test_values_and_every_gradient_equal_the_plain_definition(n, channels, filters, depth, size):
    torch.manual_seed(0)
    blocks = random_blocks(channels, filters, depth)
    x = torch.randn(n, channels, *size, dtype=torch.float64, requires_grad=True)
    inputs = [x, *blocks.parameters()]
    plain, fast = blocks(x), fused(blocks, x)
    torch.testing.assert_close(fast, plain, rtol=1e-10, atol=1e-10)
    g = torch.randn_like(plain)
    gradients = (torch.autograd.grad(out, inputs, g) for out in (fast, plain))
    for got, want in zip(*gradients, strict=True):
        torch.testing.assert_close(got, want, rtol=1e-9, atol=1e-9)


def test_single_precision_is_close_to_double():
    torch.manual_seed(0)
    blocks = random_blocks(3, 32, 4)
    x = torch.randn(4, 3, 32, 32, dtype=torch.float64)
    exact = blocks(x)
    torch.testing.assert_close(fused(blocks.float(), x.float()).double(), exact, rtol=1e-3, atol=1e-4)


def test_backward_can_run_twice():
    blocks = random_blocks(1, 4, 2)
    x = torch.randn(2, 1, 8, 8, dtype=torch.float64, requires_grad=True)
    out = fused(blocks, x).sum()
    (first,) = torch.autograd.grad(out, x, retain_graph=True)
    (second,) = torch.autograd.grad(out, x)
    assert torch.equal(first, second)


def test_dropout_drops_its_share_scales_the_rest_and_stops_their_gradient():
    torch.manual_seed(0)
    blocks = random_blocks(1, 16, 1, torch.float32)
    nn.init.constant_(blocks[0][1].bias, 20.0)  # so that without dropout nothing is zero
    x = torch.randn(64, 1, 32, 32)
    whole, dropped = fused(blocks, x), fused(blocks, x, dropout=0.1)
    assert whole.min() > 0
    kept = dropped > 0
    # 262,144 draws: three standard deviations are 0.0018.
    assert abs(float(kept.float().mean()) - 0.9) < 0.0018
    torch.testing.assert_close(dropped[kept], whole[kept] / 0.9)
    (g,) = torch.autograd.grad(dropped.sum(), [blocks[0][1].bias])
    torch.testing.assert_close(g, kept.sum((0, 2, 3)) / 0.9)


def test_dropout_is_the_same_for_the_same_seed_and_differs_between_images_and_calls():
    blocks = random_blocks(1, 4, 1)
    x = torch.randn(1, 1, 16, 16, dtype=torch.float64).expand(40, 1, 16, 16)
    torch.manual_seed(3)
    first, other = fused(blocks, x, 0.5), fused(blocks, x, 0.5)
    torch.manual_seed(3)
    assert torch.equal(first, fused(blocks, x, 0.5))
    assert not torch.equal(first, other)
    assert len({tuple(image.flatten().tolist()) for image in first}) == 40


def test_many_threads_give_the_same():
    blocks = random_blocks(1, 4, 2)
    x = torch.randn(40, 1, 28, 28, dtype=torch.float64)
    threads = torch.get_num_threads()
    outcomes = []
    try:
        for n in (1, 3):
            torch.set_num_threads(n)
            torch.manual_seed(0)
            out = fused(blocks, x, dropout=0.2)
            outcomes.append((out, *torch.autograd.grad(out.square().sum(), blocks.parameters())))
    finally:
        torch.set_num_threads(threads)
    for one, three in zip(*outcomes, strict=True):
        torch.testing.assert_close(one, three, rtol=1e-12, atol=1e-12)


def test_a_nan_is_not_hidden():
    blocks = random_blocks(1, 4, 2)
    x = torch.zeros(2, 1, 8, 8, dtype=torch.float64)
    x[1, 0, 3, 3] = torch.nan
    out = fused(blocks, x)
    assert out[0].isfinite().all()
    assert out[1].isnan().all()


def test_only_full_precision_is_supported():
    x = torch.zeros(1, 1, 16, 16)
    assert supports(x)
    assert not supports(x.half())
    assert not supports(x.bfloat16())


@pytest.mark.parametrize("dropout", [0.0, 0.1])
def test_under_autocast_it_convolves_in_bfloat16(dropout):
    torch.manual_seed(0)
    blocks = random_blocks(3, 8, 3, torch.float32)
    x = torch.randn(40, 3, 33, 32, requires_grad=True)  # more than one chunk of the first block
    inputs = [x, *blocks.parameters()]
    outcomes = []
    for enabled in (False, True):
        torch.manual_seed(1)  # the same dropout
        with torch.autocast("cpu", torch.bfloat16, enabled=enabled):
            out = fused(blocks, x, dropout)
        assert out.dtype == torch.float32
        outcomes.append([out.detach(), *torch.autograd.grad(out.square().sum(), inputs)])
    for number, (plain, fast) in enumerate(zip(*outcomes, strict=True)):
        assert not (plain.any() and torch.equal(plain, fast))
        # Eight bits: half a percent for each operation. Where two pixels are nearly equal another may win the
        # pool, and its gradient goes elsewhere.
        error = float((fast - plain).norm() / plain.norm().clamp(min=1e-9))
        assert error < (0.02 if number == 0 else 0.3), number


@pytest.mark.parametrize("training", [True, False])
def test_conv4_takes_the_fast_path_and_equals_its_own_blocks(training, monkeypatch):
    torch.manual_seed(0)
    encoder = Conv4(channels=3, height=29, width=33, filters=8, dropout=0.0).double().train(training)
    x = torch.randn(5, 3, 29, 33, dtype=torch.float64)
    plain = encoder.blocks(x).flatten(1)
    monkeypatch.setattr(encoder.blocks, "forward", None)
    fast = encoder(x)
    torch.testing.assert_close(fast, plain, rtol=1e-10, atol=1e-10)
    fast.square().sum().backward()
    grads = [p.grad.clone() for p in encoder.parameters()]
    encoder.zero_grad()
    plain.square().sum().backward()
    for got, p in zip(grads, encoder.parameters(), strict=True):
        torch.testing.assert_close(got, p.grad, rtol=1e-9, atol=1e-9)


def test_conv4_under_autocast_still_works():
    encoder = Conv4(channels=1, height=16, width=16, filters=4)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert encoder(torch.randn(2, 1, 16, 16)).isfinite().all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("size", "filters"), [((32, 32), 32), ((29, 33), 64), ((17, 40), 8)])
def test_without_gradients_each_image_gets_the_same_bits_in_any_company(dtype, size, filters):
    torch.manual_seed(0)
    encoder = Conv4(channels=3, height=size[0], width=size[1], filters=filters).to(dtype).eval()
    with torch.no_grad():
        for p in encoder.parameters():  # scales of both signs
            p.add_(torch.randn_like(p))
    x = torch.randn(LONG_BLOCK + 1, 3, *size, dtype=dtype)
    with torch.inference_mode():
        want = encoder(x)
        for n in (1, 2, 3, 31, 32, 33, 70, LONG_BLOCK):
            assert torch.equal(encoder(x[:n]), want[:n]), n
    loose = {"rtol": 1e-4, "atol": 1e-4} if dtype == torch.float32 else {}
    torch.testing.assert_close(want, encoder.blocks(x).flatten(1), **loose)
    assert encoder.independent(x) == (dtype == torch.float32 and (filters != 8 or ONEDNN))


def test_without_gradients_gray_images_among_coloured_ones_are_right():
    torch.manual_seed(0)
    encoder = Conv4(channels=3, height=20, width=18).eval()
    x = torch.randn(6, 3, 20, 18)
    x[::2] = x[::2, :1]
    with torch.inference_mode():
        torch.testing.assert_close(encoder(x), encoder.blocks(x).flatten(1), rtol=1e-4, atol=1e-5)
        assert torch.equal(encoder(x)[2:3], encoder(x[2:3]))


def test_without_gradients_nan_stays_nan_and_only_in_its_image():
    encoder = Conv4(channels=1, height=16, width=16).eval()
    x = torch.randn(3, 1, 16, 16)
    x[1, 0, 5, 5] = torch.nan
    with torch.inference_mode():
        assert encoder(x).isnan().all(1).tolist() == [False, True, False]


@pytest.mark.parametrize("filters", [4, 32])
def test_without_gradients_changed_weights_are_noticed(filters):
    torch.manual_seed(0)
    encoder = Conv4(channels=1, height=16, width=16, filters=filters).eval()
    another = Conv4(channels=1, height=16, width=16, filters=filters)
    other = Conv4(channels=1, height=16, width=16, filters=filters).state_dict()
    x = torch.randn(2, 1, 16, 16)
    conv = encoder.blocks[2][0]

    def in_place():
        with torch.no_grad():
            conv.weight.mul_(-1)

    def fused_step():  # counts no versions of what it changes
        for p in encoder.parameters():
            p.grad = torch.randn_like(p)
        torch.optim.Adam(encoder.parameters(), fused=True).step()

    changes = [
        in_place,
        lambda: setattr(conv, "weight", torch.nn.Parameter(torch.randn_like(conv.weight))),
        lambda: encoder.load_state_dict(other),
        lambda: encoder.load_state_dict({k: v.clone() for k, v in other.items()}, assign=True),
        lambda: encoder.blocks.__setitem__(0, another.blocks[0]),
        fused_step,
        encoder.double,
    ]
    for change in changes:
        change()
        x = x.to(conv.weight.dtype)
        with torch.no_grad():
            kept = encoder(x)
        torch.testing.assert_close(kept, encoder(x), rtol=1e-4, atol=1e-5)
    copied = pickle.loads(pickle.dumps(encoder))
    with torch.no_grad():
        assert torch.equal(copied(x), encoder(x))
