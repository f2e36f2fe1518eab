"""Where samples come from: one small file for each kind of source, loaded when a configuration names it."""
