"""The commands `coad demo`, `coad bench` and `coad reproduce`: parse options, call, print."""
