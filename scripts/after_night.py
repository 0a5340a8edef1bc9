"""What follows a night's runs, issue and publication: `python scripts/after_night.py --help`.

It runs without the book's environment, so it finds the modules beside it.
"""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "src"))

from bookbuild.after_night import main  # noqa: E402

if __name__ == "__main__":
    sys.exit(main(ROOT))
