"""Where records go: one small file for each kind of output, loaded when a configuration names it."""
