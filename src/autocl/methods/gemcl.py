"""GeMCL: a generative classifier on features meta-learned for it (Banayeeanzade et al. 2021)."""

from dataclasses import dataclass

from autocl.methods.base import register
from autocl.methods.meta_trained import MetaTrained


@register
@dataclass(kw_only=True, eq=False)
class GeMCL(MetaTrained):
    """GeMCL with the full posterior."""

    name = "gemcl"
    readout_kind = "normal-gamma"


@register
@dataclass(kw_only=True, eq=False)
class GeMCLMAP(MetaTrained):
    """GeMCL at the posterior's mode."""

    name = "gemcl-map"
    readout_kind = "normal-gamma-map"
