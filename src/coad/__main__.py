"""``python -m coad``."""

from coad.cli import main

if __name__ == "__main__":
    main()
