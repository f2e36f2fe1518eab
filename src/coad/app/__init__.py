"""The explorer: scored pairs, alive, in a browser on this machine."""
