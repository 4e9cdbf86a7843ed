"""ContinualClassifier, and everything that only it needs."""

from autocl.estimator.classifier import ContinualClassifier

__all__ = ["ContinualClassifier"]
