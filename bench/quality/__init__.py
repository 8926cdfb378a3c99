"""Quality: what an answer is worth, measured without a model as a judge."""
