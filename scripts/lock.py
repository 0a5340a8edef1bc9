"""Write requirements.txt anew from pyproject.toml and requirements.in: `make lock`."""

import argparse
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "src"))

from bookbuild.lock import lock  # noqa: E402

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--uv", default="uv", help="the uv to use (default: %(default)s)")
    parser.add_argument("--upgrade", action="store_true", help="take the newest versions")
    parser.add_argument("--out", type=Path, default=ROOT / "requirements.txt", help="default: %(default)s")
    options = parser.parse_args()
    options.out.write_text(lock(ROOT, uv=options.uv, upgrade=options.upgrade), encoding="utf-8")
    print(options.out)
