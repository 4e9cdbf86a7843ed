"""Which row of the paper's tables a subject stands beside, by the recipe it was meta-trained with."""

from autocl.evaluation import paper
from autocl.evaluation.subject import Subject

METHOD_ROWS = {
    "sgd": "SGD", "adam": "Adam", "l2": "Adam + L2", "ewc": "EWC", "online-ewc": "online EWC", "si": "SI",
    "mas": "MAS", "lwf": "LwF", "oml": "OML, out of the box", "oml-tuned": "OML, tuned iterations",
    "gemcl": "GeMCL",
}  # fmt: skip
"""Names in the registry of methods -> rows of the Split-MNIST table."""

FULL_DATA = {"SGD", "Adam", "Adam + L2", "EWC", "online EWC", "SI", "MAS", "LwF"}
"""Rows that saw all training images of each task; the other rows saw the demos."""


def other_diet(diet: str, row: str) -> str:
    """Why a subject of this diet must not be held against a row that was fed otherwise; empty when it may."""
    if not row or (diet == "full") == (row in FULL_DATA):
        return ""
    words = {True: "all training images", False: "the demos"}
    return f"it saw {words[diet == 'full']} of each task, the paper's {words[row in FULL_DATA]}"


def is_two_task(subject: Subject) -> bool:
    """A 5-way learner of the two- or three-task kind, used as it is."""
    return any(word in subject.training.recipe.replace("-", "_") for word in ("two_task", "three_task")) or (
        not subject.training.recipe and subject.outputs == 5
    )


def _finetuned(subject: Subject) -> str:
    """The row of learners for longer streams; none for those that never saw what the paper's learned on."""
    sets = subject.training.sets
    return paper.FINETUNED if not sets or "omniglot" in sets else ""


def split_row(subject: Subject) -> str:
    """Row of Split-MNIST: a method's own, out of the box, or meta-finetuned."""
    if subject.training.recipe in METHOD_ROWS:
        return METHOD_ROWS[subject.training.recipe]
    if subject.outputs is None or not subject.training.acl:
        return ""
    return paper.OOB if is_two_task(subject) else _finetuned(subject)


def pair_row(subject: Subject) -> str:
    """Row of a two-task table, by the image sets and whether the ACL objective was used; others have none."""
    if subject.outputs is None or not is_two_task(subject):
        return ""
    sets = paper.FC100_MINI if "fc100" in subject.training.sets else paper.OMNI_MINI
    return sets + (paper.ACL if subject.training.acl else paper.NO_ACL)


def diverse_row(subject: Subject) -> str:
    """Row of the diverse-domains table, which has none for FC100 with mini-ImageNet."""
    sets = subject.training.sets
    if len(sets) == 2 and "fc100" in sets:
        return ""
    return paper.ALL_THREE + paper.ACL if len(sets) == 3 else pair_row(subject)


def shots_row(subject: Subject) -> str:
    """Row of the table of shots."""
    if subject.training.recipe == "gemcl":
        return "GeMCL"
    row = f"ACL, meta-trained with {subject.training.shots} shots"
    return row if subject.outputs is not None and row in paper.SHOTS else ""


def validation_row(subject: Subject) -> str:
    """Row of the meta-validation table; learners chosen on validation classes of Omniglot have none."""
    titles = {"mnist": "MNIST", "fashion_mnist": "FMNIST", "cifar10": "CIFAR-10"}
    if subject.outputs is None or not subject.training.acl:
        return ""
    if is_two_task(subject):
        return paper.OOB
    chosen = titles.get(subject.training.validated_on)
    return f"Omniglot, validated on {chosen}" if chosen else ""


def omniglot_row(subject: Subject) -> str:
    """Row of Split-Omniglot."""
    if subject.training.recipe == "gemcl":
        return "GeMCL"
    return "" if subject.outputs is None or is_two_task(subject) else _finetuned(subject)


def vit_row(subject: Subject) -> str:
    """Row of the table over frozen features."""
    return "ACL on a frozen ViT-B/16" if subject.vectors else ""
