"""The read-out of one learner behind the encoder of another, without any training.

python -m tools.graft everyday split-class NAME     write NAME into the zoo; both halves by name or path
python -m tools.graft everyday NAME NAME            give NAME, which is there, the present read-out
python -m tools.graft everyday RECIPE NAME          the encoder that `autocl train RECIPE` has made

A read-out that learns from any features needs no encoder of its own: what it gives away behind one that was
meta-trained for certain images is measured, not assumed (docs/notebook.md). How an encoder was trained that
comes from a run, and so from no learner that ships, is kept in the record.
"""

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from tools.record import ZOO, read_records, record_of_run, write_record

from autocl import zoo
from autocl.cli.train import default_folder
from autocl.errors import InputError
from autocl.learner import ReadoutLearner
from autocl.learner.find import find_learner
from autocl.recipes import RECIPES, get_recipe

COMMAND = "python -m tools.graft"


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
    learner, record = graft(readout, place(encoder)), make_record(readout, encoder, name, ZOO)
    meta = {"name": name, "recipe": "graft", "readout": readout, "encoder": _giver(record)}
    learner.save_pretrained(ZOO / f"{name}.safetensors", meta=meta)
    write_record(name, {"fingerprint": learner.fingerprint(), **record}, ZOO)


def place(encoder: str) -> str:
    """The encoder's name or path; a recipe whose learner does not ship stands for the folder of its run."""
    if encoder in RECIPES and encoder not in zoo.names():
        recipe = get_recipe(encoder)
        return str(default_folder(recipe, recipe))
    return encoder


def make_record(readout: str, encoder: str, name: str, folder: Path) -> dict[str, Any]:
    """The command that makes NAME, and of an encoder that comes from a run how it was trained.

    Args:
        readout: whose read-out.
        encoder: whose encoder; NAME itself: the one it has, whose record stays.
        name: in the zoo.
        folder: of the records.

    Raises:
        InputError: NAME is there, and was not made by grafting: its record would be lost.
    """
    known = read_records(folder).get(name, {})
    if known and not str(known.get("command", "")).startswith(COMMAND):
        raise InputError(
            f"{name} is in the zoo and was not made by grafting: its weights and its record would be lost. "
            "Choose another NAME"
        )
    trained = {"encoder": known["encoder"]} if encoder == name and "encoder" in known else {}
    if encoder == name and known:
        encoder = _giver(known)
    elif Path(place(encoder)).is_dir():
        trained = {"encoder": record_of_run(Path(place(encoder)))}
    return {"command": f"{COMMAND} {readout} {encoder} {name}", **trained}


def _giver(record: dict[str, Any]) -> str:
    """Whose encoder it is, by the command of a record."""
    return str(record["command"]).split()[-2]


if __name__ == "__main__":
    main(sys.argv[1:])
