"""Scores that choose checkpoints: on validation classes or held-out training images, never on test sets."""

import torch

from autocl.data import load
from autocl.data.fixed import split_stream
from autocl.data.sampler import StreamSampler
from autocl.learner import Learner
from autocl.matrix import TransferMatrix
from autocl.objective import ObjectiveConfig, acl_objective
from autocl.passage import run_streams
from autocl.training.recipe import Recipe

SPLIT_RUNS = 5
"""Sets of demos of a Split-X validation stream, as in the authors' selection."""


def score(matrix: TransferMatrix, rule: str) -> float:
    """One number from a matrix of accuracies, by the recipe's rule."""
    return float(matrix.average() if rule == "average" else matrix.learning_accuracy())


@torch.no_grad()
def validate_streams(
    learner: Learner, sampler: StreamSampler, batches: int, *, one_order: bool = False
) -> list[TransferMatrix]:
    """Accuracies of the same validation streams every time, one matrix for each batch.

    Args:
        learner: in evaluation mode.
        sampler: of validation streams.
        batches: how many.
        one_order: only streams in which the image sets come in the sampler's order, as the authors validate;
            else all orders take their turn.
    """
    device = learner.device
    # Orders alternate or rotate with the step: a stride of one round meets the first order only.
    stride = len(sampler.sets) if one_order else 1
    matrices = []
    for step in range(0, batches * stride, stride):
        batch = sampler.batch(step).to(device)
        c = learner.config
        images = sampler.images(batch, channels=c.channels, standardise=c.standardise).to(device)
        outcome = acl_objective(learner, learner.encode(images), batch, ObjectiveConfig())
        matrices.append(outcome.accuracies)
    return matrices


@torch.no_grad()
def validate_split(learner: Learner, name: str, recipe: Recipe) -> list[TransferMatrix]:
    """Accuracies on Split-X over the validation part of X's training set, a matrix for each set of demos."""
    size = learner.config.height
    train, test = load(name, "train", size=size), load(name, "test", size=size)
    scenario = recipe.streams.scenario
    shots = getattr(recipe.streams, "shots", 15)
    streams = [
        split_stream(train, test, scenario=scenario, shots=shots, run=run, part="validation")
        for run in range(SPLIT_RUNS)
    ]
    matrix = run_streams(learner, streams).matrix
    return [TransferMatrix(values) for values in matrix.values]
