"""From files, Pillow images and arrays to network input: one way, the same everywhere."""

import io
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image, ImageDraw

from autocl.data import from_arrays, from_folder
from autocl.data.preprocess import resize, resize_floats, standardise_each
from autocl.errors import AutoclError, FileError
from autocl.estimator.preprocess import arrays_to_input, pictures_to_input, to_input
from autocl.learner.config import EncoderConfig, LearnerConfig
from autocl.pictures import BIG, FORMATS, decode, upright

RNG = np.random.default_rng(0)
COLOUR = LearnerConfig(n_classes=2, channels=3, height=16, width=16, encoder=EncoderConfig(width=4))
ORIENTATIONS = {
    1: lambda x: x,
    2: np.fliplr,
    3: lambda x: np.rot90(x, 2),
    4: np.flipud,
    5: lambda x: x.transpose(1, 0, 2),
    6: np.rot90,
    7: lambda x: np.rot90(x, 2).transpose(1, 0, 2),
    8: lambda x: np.rot90(x, -1),
}
"""How a camera that was held so stores an upright picture."""


def _photo(height: int = 40, width: int = 60) -> np.ndarray:
    """Smooth, so that JPEG changes little, and without any symmetry."""
    y, x = np.mgrid[:height, :width]
    return np.stack([4 * y, 4 * x, 2 * (x + y)], axis=2).clip(0, 255).astype(np.uint8)


def _in_both_paths(path: Path) -> tuple[np.ndarray, torch.Tensor]:
    """A file as a folder's image and as an estimator's input."""
    folder = from_folder(path.parent.parent, size=16)
    return folder.images[0], pictures_to_input([path], COLOUR)[0]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "class").mkdir()
    return tmp_path / "class"


@pytest.mark.parametrize("orientation", ORIENTATIONS)
def test_pictures_are_read_upright(orientation: int, place: Path) -> None:
    photo = _photo()
    stored = Image.fromarray(np.ascontiguousarray(ORIENTATIONS[orientation](photo)))
    exif = Image.Exif()
    exif[0x0112] = orientation
    stored.save(place / "x.jpg", exif=exif, quality=100, subsampling=0)
    pixels = decode(place / "x.jpg")
    assert pixels.shape == photo.shape
    assert abs(pixels.astype(int) - photo).max() <= 4
    again = decode(upright(place / "x.jpg"))
    assert np.array_equal(again, pixels), "turned once"
    expected = resize(photo[None], (16, 16), 3)[0]
    in_folder, in_estimator = _in_both_paths(place / "x.jpg")
    assert abs(in_folder.astype(int) - expected).max() <= 4
    wanted = standardise_each(torch.from_numpy(in_folder)[None].float() / 255)[0]
    assert torch.equal(in_estimator, wanted), "both paths see the same"


@pytest.mark.parametrize("mode", ["RGBA", "LA", "P", "PA"])
def test_what_is_transparent_shows_white(mode: str, place: Path) -> None:
    image = Image.new("RGBA", (30, 30), (0, 0, 0, 0))
    ImageDraw.Draw(image).ellipse((5, 5, 25, 25), fill="black")
    if mode == "P":
        image = image.quantize(4)
    elif mode == "LA":
        image = image.convert("LA")
    elif mode == "PA":
        alpha, image = image.getchannel("A"), image.convert("RGB").quantize(4)
        image.putalpha(alpha)
    assert image.mode == mode
    pixels = decode(image, channels=1)
    assert pixels[0, 0] == 255
    assert pixels[15, 15] == 0
    if mode != "PA":
        image.save(place / "x.png")
        np.testing.assert_array_equal(decode(place / "x.png", channels=1), pixels)
        in_folder, _ = _in_both_paths(place / "x.png")
        assert in_folder[:, 0, 0].min() > 240
        assert in_folder[:, 8, 8].max() < 15


def test_sixteen_bits_and_wider_modes_are_scaled_alike(place: Path) -> None:
    small = RNG.integers(0, 256, (20, 20), dtype=np.uint8)
    deep = small.astype(np.uint16) * 257
    images = {
        "I;16": Image.fromarray(deep),
        "I;16B": Image.frombytes("I;16B", (20, 20), deep.astype(">u2").tobytes()),
        "I": Image.fromarray(deep.astype(np.int32)),
        "I of bytes": Image.fromarray(small.astype(np.int32)),
        "F in 0 to 1": Image.fromarray((small / 255).astype(np.float32)),
        "F in 0 to 255": Image.fromarray(small.astype(np.float32)),
    }
    for name, image in images.items():
        np.testing.assert_array_equal(decode(image), small, err_msg=name)
    images["I;16"].save(place / "x.png")
    Image.fromarray(deep).save(place.parent / "x.tif")
    np.testing.assert_array_equal(decode(place / "x.png"), small)
    np.testing.assert_array_equal(decode(place.parent / "x.tif"), small)
    in_folder, _ = _in_both_paths(place / "x.png")
    np.testing.assert_array_equal(in_folder, resize(small[None], (16, 16), 3)[0])
    wild = np.linspace(-5, 1e9, 400).reshape(20, 20).astype(np.float32)
    assert (np.diff(decode(Image.fromarray(wild)).ravel().astype(int)) >= 0).all(), "its own range"
    wild[3, 3] = np.nan
    with pytest.raises(FileError, match="NaN"):
        decode(Image.fromarray(wild))


def test_big_pictures_are_reduced_while_decoding(place: Path) -> None:
    photo = _photo(1500, 2000) // 2 + 40
    assert photo.shape[0] * photo.shape[1] > BIG
    for name in ("x.jpg", "x.png"):
        Image.fromarray(photo).save(place / name, quality=95)
        reduced = decode(place / name, at_least=32)
        assert 128 <= min(reduced.shape[:2]) < 300
        assert decode(place / name).shape == photo.shape, "only where a smaller size is enough"
        small, whole = (resize(x[None], (32, 32), 3).astype(int) for x in (reduced, photo))
        assert abs(small - whole).max() <= 4
    Image.fromarray(photo[:200, :200]).save(place / "y.jpg")
    assert decode(place / "y.jpg", at_least=16).shape == (200, 200, 3), "small ones stay as they are"


def test_too_many_pixels_are_refused(tmp_path: Path) -> None:
    Image.new("1", (20_000, 20_000)).save(tmp_path / "bomb.png")
    with pytest.raises(FileError, match=r"bomb\.png"):
        decode(tmp_path / "bomb.png")
    with pytest.raises(FileError, match="20×30 pixels are too many: at most 500"):
        decode(Image.new("L", (20, 30)), max_pixels=500)


def test_formats_that_nobody_asked_for_are_not_opened(tmp_path: Path) -> None:
    """EPS would start Ghostscript."""
    Image.new("RGB", (8, 8)).save(tmp_path / "x.png", format="EPS")
    with pytest.raises(FileError, match="not an image"):
        decode(tmp_path / "x.png")
    with pytest.raises(FileError, match="no such file"):
        decode(tmp_path / "y.png")


@pytest.mark.filterwarnings("ignore::UserWarning")  # Pillow's remarks on damaged tags
@pytest.mark.parametrize("kind", FORMATS)
def test_damaged_pictures_are_errors_of_ours_or_pictures(kind: str) -> None:
    out = io.BytesIO()
    Image.fromarray(_photo(24, 24)).save(out, kind)
    data = out.getvalue()
    rng = np.random.default_rng(1)
    refused = 0
    for i in range(120):
        changed = bytearray(data[: int(rng.integers(1, len(data)))] if i % 4 == 0 else data)
        for at in rng.integers(0, min(len(changed), 200) if i % 2 else len(changed), 3):
            changed[at] = int(rng.integers(256))
        try:
            pixels = decode(bytes(changed))
        except AutoclError:
            refused += 1
        else:
            assert pixels.dtype == np.uint8
            assert pixels.ndim in (2, 3)
    assert refused > 0


def test_floats_are_resized_by_the_same_filter_as_bytes() -> None:
    pixels = RNG.integers(0, 256, (3, 28, 31, 3), dtype=np.uint8)
    for size, channels in (((16, 16), 3), ((40, 20), 1)):
        floats = resize_floats(torch.from_numpy(pixels.transpose(0, 3, 1, 2)).double(), size, channels)
        wanted = resize(pixels, size, channels).astype(float)
        # Pillow rounds after each of its two passes, and after luma.
        assert np.abs(floats.numpy() - wanted).max() <= 1.6


def test_estimator_and_image_set_give_the_same_input() -> None:
    pixels = RNG.integers(0, 256, (4, 28, 28, 3), dtype=np.uint8)
    images = from_arrays(pixels, [0, 0, 1, 1], size=16)
    x = images.take(torch.arange(4), channels=3, standardise="image")
    assert torch.equal(x, arrays_to_input(pixels, COLOUR))
    gray = from_arrays(pixels[..., 0], [0, 0, 1, 1], size=16)
    x = gray.take(torch.arange(4), channels=3, standardise="image")
    assert torch.equal(x, arrays_to_input(pixels[..., 0], COLOUR))


def test_float_images_of_any_range() -> None:
    x = RNG.random((2, 16, 16, 3))
    wanted = arrays_to_input(x, COLOUR)
    for scale, offset in ((1e-30, 0), (1e-4, 0), (1e20, 0), (1, 1e6)):
        found = arrays_to_input(x * scale + offset, COLOUR)
        torch.testing.assert_close(found, wanted, rtol=0, atol=1e-4)
    found = arrays_to_input((x + 1000).astype(np.float32), COLOUR)
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-3)
    for blank in (0.0, 0.1, 1e6, -3.3):
        assert arrays_to_input(np.full((1, 9, 9), blank), COLOUR).abs().max() < 1e-3


@pytest.mark.parametrize("shape", [(16, 16), (16, 16, 3)])
def test_one_image_instead_of_several_is_refused(shape: tuple[int, ...]) -> None:
    many = RNG.integers(0, 256, (4, *shape), dtype=np.uint8)
    _, form = to_input(many, COLOUR, {}, image_shape=None, read_vectors=np.asarray)
    with pytest.raises(AutoclError, match=r"is one image here.* pass X\[None\]"):
        to_input(many[0], COLOUR, form, image_shape=None, read_vectors=np.asarray)
