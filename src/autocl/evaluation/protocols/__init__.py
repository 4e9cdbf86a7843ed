"""The protocols by name, in the order of the paper; ours come last."""

from autocl.evaluation.protocol import Protocol
from autocl.evaluation.protocols.diverse import DIVERSE
from autocl.evaluation.protocols.meta_validation import META_VALIDATION
from autocl.evaluation.protocols.shapes import SHAPES
from autocl.evaluation.protocols.shots import SHOTS_PROTOCOL
from autocl.evaluation.protocols.split_mnist import SPLIT_MNIST
from autocl.evaluation.protocols.split_omniglot import SPLIT_OMNIGLOT
from autocl.evaluation.protocols.two_task import TWO_TASK
from autocl.evaluation.protocols.two_task_ood import TWO_TASK_OOD
from autocl.evaluation.protocols.vit import VIT

PROTOCOLS: dict[str, Protocol] = {
    p.name: p
    for p in (
        TWO_TASK, TWO_TASK_OOD, SPLIT_MNIST, SHOTS_PROTOCOL, META_VALIDATION, SPLIT_OMNIGLOT, DIVERSE, VIT,
        SHAPES,
    )
}  # fmt: skip
