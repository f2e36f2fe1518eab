"""The explorer: scored pairs as an interactive page in a browser on this machine."""
