"""Training of the networks: inputs, splits, the pair of networks, the training loop, starts, checkpoints."""
