"""Prototypical networks: nearest class mean on features meta-learned for it (Snell et al. 2017)."""

from dataclasses import dataclass

from autocl.methods.base import register
from autocl.methods.meta_trained import MetaTrained


@register
@dataclass(kw_only=True, eq=False)
class Prototypes(MetaTrained):
    """As the nearest class mean, with an encoder of its own."""

    name = "prototypes"
    readout_kind = "means"
