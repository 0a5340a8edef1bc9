"""Write reference/ from the executed English notebooks; `make reference` builds those first."""

from pathlib import Path

from bookbuild.layout import Layout
from bookbuild.reference import write_references

if __name__ == "__main__":
    print(write_references(Layout(Path(__file__).resolve().parent.parent)))
