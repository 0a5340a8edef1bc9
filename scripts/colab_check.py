"""Run published notebooks as Colab does: `python scripts/colab_check.py --help`."""

import sys
from pathlib import Path

from bookbuild.colab_check import main

if __name__ == "__main__":
    sys.exit(main(Path(__file__).resolve().parent.parent))
