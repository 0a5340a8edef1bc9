"""Compare reference/ with what its notebooks give now, replaying this machine's records."""

import sys
from pathlib import Path

from bookbuild.layout import Layout
from bookbuild.reference import compare_references

if __name__ == "__main__":
    sys.exit(compare_references(Layout(Path(__file__).resolve().parent.parent)))
