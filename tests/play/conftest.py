"""A running application with a learner small enough to be quick."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("starlette", reason="the playground needs autocl[play]")
pytest.importorskip("httpx", reason="asking the API needs httpx")
sys.path.insert(0, str(Path(__file__).parent.parent))

from starlette.testclient import TestClient

from autocl.play.app import make_app
from small_learners import RIDGE, small


@pytest.fixture(scope="session")
def learner(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The path of a small learner that can neither forget nor notice novelty."""
    return str(small(RIDGE).save_pretrained(tmp_path_factory.mktemp("learner") / "small.safetensors"))


@pytest.fixture
def client(learner: str) -> Iterator[TestClient]:
    with TestClient(make_app(learner), base_url="http://localhost") as client:
        yield client
