"""Features once: computed, resumed, verified; nothing on the disk is believed without its check sum."""

import json
import multiprocessing
import os
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from autocl.data import features as job
from autocl.data import from_arrays
from autocl.data.features import FeatureStore, compute_features
from autocl.data.folder import list_files, list_folder
from autocl.data.imageset import FeatureSet
from autocl.errors import DataError, FileError, InputError

N, CHUNK = 50, 8


class Colour:
    """The mean colour of an image and its square: a backbone that counts the images it has seen."""

    name, fingerprint, n_features, image_size = "colour", "colour-1", 6, 16

    def __init__(self, die_after: int | None = None, scale: float = 1.0) -> None:
        self.seen, self.die_after, self.scale = 0, die_after, scale
        self.lock = threading.Lock()

    def __call__(self, images: Sequence[Any]) -> np.ndarray:
        with self.lock:
            self.seen += len(images)
            if self.die_after is not None and self.seen > self.die_after:
                raise KeyboardInterrupt
        means = [np.asarray(image.convert("RGB"), np.float32).mean((0, 1)) / 255 for image in images]
        return np.stack([np.concatenate([m, m**2]) for m in means]) * self.scale


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUTOCL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(job, "CHUNK", CHUNK)


@pytest.fixture(scope="module")
def images():
    rng = np.random.default_rng(0)
    return from_arrays(rng.integers(0, 256, (N, 9, 9, 3), np.uint8), rng.integers(0, 4, N), name="toy")


def expected(images) -> np.ndarray:
    means = images.images.astype(np.float64).mean((2, 3)) / 255
    return np.concatenate([means, means**2], axis=1)


def folder() -> Path:
    (found,) = [path for path in (Path(os.environ["AUTOCL_CACHE"]) / "features").iterdir() if path.is_dir()]
    return found


@pytest.mark.parametrize("workers", [1, 3])
def test_features_are_those_of_the_images_and_are_computed_once(images, workers: int) -> None:
    backbone = Colour()
    made = compute_features(images, backbone, workers=workers)
    np.testing.assert_allclose(made.features, expected(images), atol=1e-3)
    assert made.features.dtype == np.float16
    assert not made.features.flags.writeable
    assert isinstance(made.features.base, np.memmap)
    assert (made.name, made.split, made.classes) == ("toy", "all", images.classes)
    np.testing.assert_array_equal(made.labels, images.labels)
    np.testing.assert_array_equal(made.order, images.order)
    again = compute_features(images, backbone, workers=workers)
    assert backbone.seen == N
    assert again.hash == made.hash
    np.testing.assert_array_equal(again.features, made.features)


def test_other_backbones_images_and_precisions_are_other_entries(images) -> None:
    first = compute_features(images, Colour())
    other = Colour()
    other.fingerprint = "colour-2"
    exact = compute_features(images, Colour(), dtype="float32")
    fewer = from_arrays(images.images[:-1].transpose(0, 2, 3, 1), images.labels[:-1], name="toy")
    hashes = {first.hash, compute_features(images, other).hash, exact.hash}
    assert len({*hashes, compute_features(fewer, Colour()).hash}) == 4
    assert other.seen == N
    np.testing.assert_allclose(exact.features, expected(images), atol=1e-6)


def test_interrupted_job_goes_on_where_it_stopped(images) -> None:
    with pytest.raises(KeyboardInterrupt):
        compute_features(images, Colour(die_after=30), workers=1)
    second = Colour()
    made = compute_features(images, second, workers=1)
    assert second.seen == N - 24, "three chunks were done, the fourth was not"
    np.testing.assert_allclose(made.features, expected(images), atol=1e-3)


class Killed(Colour):
    """Ends the whole process, without a word to anybody, in the middle of a chunk."""

    def __call__(self, images: Sequence[Any]) -> np.ndarray:
        if self.seen >= 30:
            os._exit(9)
        return super().__call__(images)


def test_killed_job_loses_its_unfinished_chunks_only(images) -> None:
    process = multiprocessing.get_context("fork").Process(
        target=compute_features, args=(images, Killed()), kwargs={"workers": 1}
    )
    process.start()
    process.join(60)
    assert process.exitcode == 9
    second = Colour()
    made = compute_features(images, second, workers=1)
    assert second.seen == N - 32, "all four chunks that were done are there"
    np.testing.assert_allclose(made.features, expected(images), atol=1e-3)


def damage_row(at: Path) -> None:
    data = bytearray((at / "features.npy").read_bytes())
    data[-3] ^= 4  # in the last chunk
    (at / "features.npy").write_bytes(data)


def damage_sum(at: Path) -> None:
    lines = (at / "chunks.jsonl").read_text().replace('"chunk": 2,', '"chunk": 2000,')
    (at / "chunks.jsonl").write_text(lines)


def cut_sums(at: Path) -> None:
    """As a kill does in the middle of a line."""
    (at / "chunks.jsonl").write_text((at / "chunks.jsonl").read_text()[:-20])


@pytest.mark.parametrize("damage", [damage_row, damage_sum, cut_sums])
def test_damaged_chunk_is_computed_again_and_only_that(images, damage) -> None:
    whole = np.array(compute_features(images, Colour()).features)
    damage(folder())
    again = Colour()
    made = compute_features(images, again)
    assert 0 < again.seen <= CHUNK
    np.testing.assert_array_equal(made.features, whole)
    compute_features(images, once := Colour())
    assert once.seen == 0, "it is whole again"


def foreign_rows(at: Path) -> None:
    np.save(at / "features.npy", np.zeros((N, 7), np.float16))


def pickled_rows(at: Path) -> None:
    np.save(at / "features.npy", np.array([{"evil": 1}], dtype=object), allow_pickle=True)


def foreign_meta(at: Path) -> None:
    meta = json.loads((at / "meta.json").read_text())
    (at / "meta.json").write_text(json.dumps({**meta, "key": "of something else"}))


def not_json(at: Path) -> None:
    (at / "meta.json").write_bytes(b"\xff\x00{")


def cut_rows(at: Path) -> None:
    (at / "features.npy").write_bytes((at / "features.npy").read_bytes()[:100])


def no_rows(at: Path) -> None:
    (at / "features.npy").unlink()


@pytest.mark.parametrize("foreign", [foreign_rows, pickled_rows, foreign_meta, not_json, cut_rows, no_rows])
def test_foreign_or_broken_files_are_never_trusted(images, foreign) -> None:
    whole = np.array(compute_features(images, Colour()).features)
    foreign(folder())
    again = Colour()
    np.testing.assert_array_equal(compute_features(images, again).features, whole)
    assert again.seen == N


def test_rows_of_another_backbone_put_in_place_are_not_believed(images) -> None:
    """Same shape, same type, other values: only the sums can tell."""
    whole = np.array(compute_features(images, Colour()).features)
    np.save(folder() / "features.npy", (whole * 2).astype(np.float16))
    again = Colour()
    np.testing.assert_array_equal(compute_features(images, again).features, whole)
    assert again.seen == N


def test_two_processes_share_one_job(images) -> None:
    context = multiprocessing.get_context("fork")
    jobs = [context.Process(target=compute_features, args=(images, Colour())) for _ in range(2)]
    for process in jobs:
        process.start()
    for process in jobs:
        process.join(60)
    assert [process.exitcode for process in jobs] == [0, 0]
    lines = (folder() / "chunks.jsonl").read_text().split()
    assert sum("sha256" in line for line in lines) == -(-N // CHUNK), "each chunk was computed by one of them"


def test_values_beyond_half_precision_are_refused_with_the_remedy(images) -> None:
    with pytest.raises(InputError, match=r"float16.*dtype='float32'"):
        compute_features(images, Colour(scale=1e6))
    made = compute_features(images, Colour(scale=1e6), dtype="float32")
    np.testing.assert_allclose(made.features, expected(images) * 1e6, rtol=1e-4)


def test_cache_that_cannot_be_written_is_named(images, tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("AUTOCL_CACHE", str(tmp_path / "file"))
    with pytest.raises(FileError, match="AUTOCL_CACHE"):
        compute_features(images, Colour())


def test_store_writes_exactly_its_rows(tmp_path: Path) -> None:
    rows = np.random.default_rng(0).normal(size=(7, 3)).astype(np.float32)
    store = FeatureStore(tmp_path / "s", "key", n=7, n_features=3, dtype="float32", chunk=3)
    store.open()
    assert store.whole() is None
    for number, span in reversed(store.missing()):
        store.write(number, span, rows[span])
    np.testing.assert_array_equal(store.whole(), rows)


# Folders and files


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    top = tmp_path / "photos"
    rng = np.random.default_rng(1)
    for label in ("dog", "cat"):
        (top / label).mkdir(parents=True)
        for i in range(3):
            pixels = rng.integers(0, 256, (20, 30, 3), np.uint8)
            Image.fromarray(pixels).save(top / label / f"{i}.png")
    (top / "dog" / "notes.txt").write_text("not a picture")
    return top


def test_folder_is_read_by_class_and_kept_by_content(photos: Path) -> None:
    backbone = Colour()
    made = compute_features(photos, backbone)
    assert made.classes == ("cat", "dog")
    assert made.counts.tolist() == [3, 3]
    with Image.open(photos / "dog" / "1.png") as image:
        mean = np.asarray(image).mean((0, 1)) / 255
    np.testing.assert_allclose(made.features[4, :3], mean, atol=1e-3)
    photos.rename(photos.with_name("moved"))
    assert compute_features(photos.with_name("moved"), Colour()).hash == made.hash
    Image.new("RGB", (5, 5), "red").save(photos.with_name("moved") / "cat" / "0.png")
    assert compute_features(photos.with_name("moved"), Colour()).hash != made.hash


def test_list_of_files_keeps_its_order_within_classes(photos: Path) -> None:
    files = [photos / "dog" / "2.png", photos / "cat" / "0.png", photos / "dog" / "0.png"]
    listed = list_files(files, ["b", "a", "b"])
    assert listed.order.tolist() == [1, 0, 2]
    made = compute_features(listed, Colour())
    assert made.labels.tolist() == [0, 1, 1]
    whole = compute_features(photos, Colour())
    np.testing.assert_array_equal(made.features, whole.features[[0, 5, 3]])
    with pytest.raises(InputError, match="one label for each"):
        list_files(files, ["a"])


def test_damaged_picture_is_named_and_the_rest_is_kept(photos: Path) -> None:
    (photos / "dog" / "2.png").write_bytes(b"\x89PNG no more")
    with pytest.raises(DataError, match=r"2\.png"):
        compute_features(photos, Colour())
    with pytest.raises(DataError, match="not a folder"):
        list_folder(photos / "nowhere")


def test_feature_set_takes_rows_as_float32_and_checks_itself() -> None:
    features = np.arange(12, dtype=np.float16).reshape(4, 3)
    made = FeatureSet(
        name="t", split="all", features=features, starts=np.array([0, 1, 4]), classes=("a", "b")
    )
    taken = made.take(torch.tensor([[3, 0], [1, 1]]))
    assert taken.dtype == torch.float32
    np.testing.assert_array_equal(taken.numpy(), features[[[3, 0], [1, 1]]])
    assert (made.n_classes, made.n_features, made.counts.tolist()) == (2, 3, [1, 3])
    for wrong in ({"features": features.astype(np.float64)}, {"starts": np.array([0, 4])}):
        with pytest.raises(InputError, match="set 't'"):
            FeatureSet(
                **{"name": "t", "split": "all", "features": features, "starts": made.starts,
                   "classes": made.classes, **wrong}
            )  # fmt: skip
