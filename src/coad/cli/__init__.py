"""The command line: one file per command, thin: parse, call, print.

``coad --help`` must be quick, so a command imports what it needs when it runs. The commands are put
together in :mod:`coad.__main__`.
"""
