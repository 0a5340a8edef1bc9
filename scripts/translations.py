"""Catalogues of the translations: `python scripts/translations.py --help`."""

import sys
from pathlib import Path

from bookbuild.translation.commands import main

if __name__ == "__main__":
    sys.exit(main(Path(__file__).resolve().parent.parent))
