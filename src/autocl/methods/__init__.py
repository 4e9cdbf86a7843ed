"""Ways to learn continually behind one interface: hand-crafted baselines, meta-learned rivals, our own."""

from autocl.methods.base import Cost, Diet, Method, StreamInfo, get_method, method_names, register

__all__ = ["Cost", "Diet", "Method", "StreamInfo", "get_method", "method_names", "register"]
