"""RivalRecipe: one complete, typed configuration of the meta-training of a rival."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autocl.data.stream_config import StreamConfig
from autocl.encoders import EncoderConfig
from autocl.errors import FileError, InputError
from autocl.methods.rival import RivalConfig
from autocl.training.recipe import FILE_NAME, Source, source_from_dict


@dataclass(frozen=True, kw_only=True)
class RivalRecipe:
    """Everything that decides the result. Adam's rate rises for `warmup` steps and falls along a cosine."""

    name: str
    """As in the registry of methods."""
    rival: RivalConfig
    source: Source
    """Its training classes are used, its validation classes validate."""
    streams: StreamConfig
    steps: int = 700
    batch_size: int = 24
    """Streams a step."""
    lr: float = 2e-3
    warmup: int = 50
    clip: float = 1.0
    """Largest norm of the gradient."""
    prototype: float = 0.0
    """Weight of the prototype loss on the encoder's features, which trains it from the first step."""
    validate_every: int = 100
    """Steps between validations; the best rival by validation is kept."""
    validate_batches: int = 4
    """Batches of streams over the validation classes."""
    seed: int = 1

    def __post_init__(self) -> None:
        for name in ("steps", "batch_size", "validate_every", "validate_batches"):
            if getattr(self, name) < 1:
                raise InputError(f"rival {self.name}: {name} must be at least 1, got {getattr(self, name)}")
        for name in ("lr", "clip"):
            if not getattr(self, name) > 0:
                raise InputError(f"rival {self.name}: {name} must be positive, got {getattr(self, name)}")
        for name in ("warmup", "prototype", "seed"):
            if not getattr(self, name) >= 0:
                raise InputError(f"rival {self.name}: {name} must be at least 0, got {getattr(self, name)}")
        if self.rival.readout == "online" and self.streams.n_outputs > self.rival.n_outputs:
            raise InputError(
                f"rival {self.name}: its streams have {self.streams.n_outputs} labels, but its head only "
                f"{self.rival.n_outputs} outputs; raise rival.n_outputs"
            )


def rival_recipe_from_dict(values: dict[str, Any]) -> RivalRecipe:
    """Read back what `dataclasses.asdict` made of a recipe.

    Example:
        >>> from dataclasses import asdict
        >>> from autocl.recipes.rivals import gemcl
        >>> rival_recipe_from_dict(asdict(gemcl())) == gemcl()
        True
    """
    rival = values["rival"]
    nested = {
        "rival": RivalConfig(**{**rival, "encoder": EncoderConfig(**rival["encoder"])}),
        "source": source_from_dict(values["source"]),
        "streams": StreamConfig(**values["streams"]),
    }
    return RivalRecipe(**{**values, **nested})


def read_rival_recipe(folder: Path) -> RivalRecipe | None:
    """The recipe that the run in a folder was started with; None when that is no run of a rival."""
    path = folder / FILE_NAME
    if not path.is_file():
        return None
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
        return rival_recipe_from_dict(values) if "rival" in values else None
    except (KeyError, TypeError, ValueError) as error:
        raise FileError(f"{path}: not a recipe of this version of autocl ({error})") from error
