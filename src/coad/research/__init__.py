"""Data sets, peers, the paper's experiments and their figures. The product never imports this room."""
