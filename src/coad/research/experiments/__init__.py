"""The paper's experiments and ours, one file each: they compute and return values; figures draw them."""
