"""Meta-training: from a recipe to a continual learner."""
