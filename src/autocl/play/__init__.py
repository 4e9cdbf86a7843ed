"""The playground: a page where people teach a learner by hand, and the API behind it."""
