"""`autocl tour`: what a learned learner does, before your eyes, beside simple rivals, in seconds and offline.

Two contests (digits, drawings), then two learners that differ in nothing but their objective.
"""
