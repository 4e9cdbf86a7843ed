import pytest
import torch


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    """As many threads as the processes that these tests start, so that sums have the same order."""
    torch.set_num_threads(1)
