"""`python -m cute_py`, the same as `cute-py`."""

import sys

from cute_py.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
