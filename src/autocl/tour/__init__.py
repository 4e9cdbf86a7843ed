"""`autocl tour`: what a learned learner does, before your eyes, beside simple rivals, in seconds and offline.

Two contests (digits, drawings), photographs where their network is installed, then two learners that differ
in nothing but their objective.
"""
