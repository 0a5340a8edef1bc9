"""A night's run of the book: `python scripts/nightly.py --help`."""

import sys
from pathlib import Path

from bookbuild.night_commands import main

if __name__ == "__main__":
    sys.exit(main(Path(__file__).resolve().parent.parent))
