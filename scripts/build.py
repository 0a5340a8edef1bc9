"""Build the book: `python scripts/build.py --help`."""

import sys
from pathlib import Path

from bookbuild.cli import main

if __name__ == "__main__":
    sys.exit(main(Path(__file__).resolve().parent.parent))
