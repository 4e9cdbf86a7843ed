"""Ways to learn continually behind one interface: gradient-trained baselines, learners, read-outs."""

from autocl.baselines.base import Cost, Diet, Method, StreamInfo, get_method, method_names, needs_of, register

__all__ = ["Cost", "Diet", "Method", "StreamInfo", "get_method", "method_names", "needs_of", "register"]
