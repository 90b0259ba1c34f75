"""``python -m treelu``: the command line."""

import sys

from treelu.cli import main

if __name__ == "__main__":
    sys.exit(main())
