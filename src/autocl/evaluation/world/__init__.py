"""The world table: learners beside simple rivals on the very same features, many image sets and streams.

`streams` draws the streams, `sets` names the image sets and makes their features, `rivals` are the simple
classifiers, `measure` asks everybody, `summary` says what follows.
"""
