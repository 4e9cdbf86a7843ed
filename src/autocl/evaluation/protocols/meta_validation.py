"""Appendix: Split-MNIST, -Fashion-MNIST and -CIFAR-10, for learners chosen on different validation sets."""

from autocl.evaluation.protocol import Protocol
from autocl.evaluation.protocols.split_mnist import split_setting
from autocl.evaluation.rows import validation_row

META_VALIDATION = Protocol(
    name="meta-validation",
    title="Choice of meta-validation sets, domain-incremental Split-X (appendix)",
    runs=10,
    settings=tuple(
        split_setting(f"split-{images}", scenario="domain", tasks=5, images=images)
        for images in ("mnist", "fashion_mnist", "cifar10")
    ),
    row=validation_row,
)
