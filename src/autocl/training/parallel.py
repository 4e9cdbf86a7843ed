"""Distributed training: ranks started by `torchrun` share a batch; a single process is rank 0 of 1."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from autocl.errors import TrainingError
from autocl.learner import LearnerState

TIMEOUT = timedelta(minutes=10)
"""Time after which a rank reports the others dead."""


@dataclass(frozen=True, kw_only=True)
class Ranks:
    """This process among its peers."""

    rank: int
    world: int
    device: torch.device

    @property
    def is_main(self) -> bool:
        """Whether this is the first rank, the only one that writes."""
        return self.rank == 0

    def local_slice(self, batch_size: int) -> tuple[int, int]:
        """This rank's part [lo, hi) of a global batch."""
        if batch_size % self.world:
            raise TrainingError(
                f"batch_size {batch_size} does not divide among {self.world} processes; choose a multiple"
            )
        own = batch_size // self.world
        return self.rank * own, (self.rank + 1) * own

    def wrap(self, module: nn.Module, *, some_unused: bool = False) -> nn.Module:
        """The module, averaging its gradients over all ranks when there are several.

        Args:
            module: whose forward pass gives the loss.
            some_unused: whether it leaves out parameters at some steps; looking for them costs a little.
        """
        if self.world == 1:
            return module
        ids = [self.device.index] if self.device.type == "cuda" else None
        return DistributedDataParallel(module, device_ids=ids, find_unused_parameters=some_unused)

    def agree(self, *values: int) -> tuple[int, ...]:
        """The largest of each value over all ranks, so that they decide alike."""
        if self.world == 1:
            return values
        shared = torch.tensor(values, device=self.device)
        dist.all_reduce(shared, op=dist.ReduceOp.MAX)
        return tuple(int(v) for v in shared)

    def mean(self, *values: Tensor) -> tuple[Tensor, ...]:
        """The mean of each tensor over all ranks, in one exchange."""
        if self.world == 1:
            return values
        flat = torch.cat([v.detach().flatten() for v in values])
        dist.all_reduce(flat)
        parts = torch.split(flat / self.world, [v.numel() for v in values])
        return tuple(p.reshape(v.shape) for p, v in zip(parts, values, strict=True))

    def gather(self, state: LearnerState) -> LearnerState:
        """The states of all ranks' streams as one batch, in the order of the global batch."""
        if self.world == 1:
            return state
        whole = {}
        for name, tensor in state.tensors.items():
            parts = [tensor.new_empty(tensor.shape) for _ in range(self.world)]  # contiguous, as is asked for
            dist.all_gather(parts, tensor.contiguous())
            whole[name] = torch.cat(parts)
        return LearnerState(whole)


@contextmanager
def ranks(device: str = "auto") -> Iterator[Ranks]:
    """Join the process group that torchrun describes, or stand alone."""
    world = int(os.environ.get("WORLD_SIZE", "1"))
    rank, local = int(os.environ.get("RANK", "0")), int(os.environ.get("LOCAL_RANK", "0"))
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        place = torch.device(device, local) if device == "cuda" else torch.device(device)
    except RuntimeError as error:
        raise TrainingError(f"there is no device {device!r}: choose auto, cpu or cuda") from error
    if place.type == "cuda" and not torch.cuda.is_available():
        raise TrainingError("--device cuda, but PyTorch sees no CUDA here: use --device cpu")
    if world == 1:
        yield Ranks(rank=0, world=1, device=place)
        return
    if place.type == "cuda":
        torch.cuda.set_device(place)
    dist.init_process_group("nccl" if place.type == "cuda" else "gloo", timeout=TIMEOUT)
    try:
        yield Ranks(rank=rank, world=world, device=place)
    finally:
        dist.destroy_process_group()
