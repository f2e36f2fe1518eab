"""What the commands call: fit, score and evaluate models on files."""
