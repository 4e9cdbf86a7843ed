"""Protocols, the paper's published numbers beside ours, results as data, and the report."""
