"""Ways to learn continually behind one interface: gradient-trained baselines, learners, read-outs."""
