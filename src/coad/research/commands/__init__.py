"""The commands of this room: `coad demo`, `coad bench`, `coad reproduce`."""
