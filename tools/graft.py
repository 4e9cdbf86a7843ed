"""The read-out of one learner behind the encoder of another, without any training.

python -m tools.graft everyday two-task-fc100 NAME      write NAME into the zoo

A read-out that learns from any features needs no encoder of its own: what it gives away behind one that was
meta-trained for certain images is measured, not assumed (docs/notebook.md).
"""

import sys
from dataclasses import replace

from tools.record import ZOO, write_record

from autocl.errors import InputError
from autocl.learner import ReadoutLearner
from autocl.learner.find import find_learner


def graft(readout: str, encoder: str) -> ReadoutLearner:
    """A learner with the read-out of one learner and the encoder of another, each by name or path."""
    giver, eyes = find_learner(readout), find_learner(encoder)
    if not isinstance(giver, ReadoutLearner):
        raise InputError(f"{readout} has fast weights, which only know their own encoder's features")
    config = replace(
        giver.config, channels=eyes.config.channels, height=eyes.config.height, width=eyes.config.width,
        standardise=eyes.config.standardise, encoder=eyes.config.encoder,
    )  # fmt: skip
    made = ReadoutLearner(config, encoder=eyes.encoder)
    made.readout.load_state_dict(giver.readout.state_dict())
    return made


def main(args: list[str]) -> None:
    """Make it, and record how."""
    if len(args) != 3:
        sys.exit(__doc__)
    readout, encoder, name = args
    learner = graft(readout, encoder)
    meta = {"name": name, "recipe": "graft", "readout": readout, "encoder": encoder}
    learner.save_pretrained(ZOO / f"{name}.safetensors", meta=meta)
    command = f"python -m tools.graft {' '.join(args)}"
    write_record(name, {"fingerprint": learner.fingerprint(), "command": command}, ZOO)


if __name__ == "__main__":
    main(sys.argv[1:])
