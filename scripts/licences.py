"""List the installed packages whose licence nobody has looked at; exit status 1 where there are any."""

import sys
from pathlib import Path

from bookbuild.licences import pinned, unknown_licences

if __name__ == "__main__":
    unknown = unknown_licences(pinned(Path(__file__).resolve().parent.parent / "requirements.txt"))
    print("\n".join(unknown) or "Every licence is known.")
    sys.exit(bool(unknown))
