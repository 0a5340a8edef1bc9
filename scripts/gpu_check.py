"""The book on a machine with a GPU and without a network: `python scripts/gpu_check.py --help`."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "src"))  # a lent machine may have the packages and not the book's own

from bookbuild.gpu_commands import main  # noqa: E402

if __name__ == "__main__":
    sys.exit(main(ROOT))
