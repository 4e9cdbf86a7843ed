"""Read-outs: fast heads with a state, found by name, with one protocol."""

from autocl.readouts.base import READOUTS, Readout, ReadoutConfig, State, build_readout

__all__ = ["READOUTS", "Readout", "ReadoutConfig", "State", "build_readout"]
