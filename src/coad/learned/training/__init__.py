"""The inside of the learned mode: inputs, the pair of networks, the loop, seeds, checkpoints."""
