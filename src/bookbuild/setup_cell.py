"""The first cell of a published notebook: the package in Colab, advice elsewhere, the notebook's language.

It is the one code cell that differs between languages.
"""

from __future__ import annotations

import json
from string import Template

from nbformat import NotebookNode
from nbformat.v4 import new_code_cell

from cheap_inference.render.words import Words
from cheap_inference.section import LOCALE_VARIABLE

from .publication import Publication

SETUP = "setup"
#: Closed in Colab and in JupyterLab: a reader comes for the section.
FOLDED = {"cellView": "form", "jupyter": {"source_hidden": True}, "tags": [SETUP]}

#: Fitted to the machine there. Naming the versions that are installed makes pip leave them, or fail and
#: change nothing.
LEFT_ALONE = ("torch", "numpy")

INSTALLING = Template("""\
# @title $title
import os
import subprocess
import sys
from importlib.metadata import version
from importlib.util import find_spec

os.environ[$variable] = $locale  # what locale = "auto" means below
package = $requirement
try:
    import google.colab
except ImportError:
    if find_spec("cheap_inference") is None:
        raise ImportError($missing) from None
else:
    kept = [f"{name}=={version(name)}" for name in $left_alone]
    pip = [sys.executable, "-m", "pip", "install", "--quiet", package, *kept]
    done = subprocess.run(pip, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr)
""")
CHECKING = Template("""\
# @title $title
import os
from importlib.util import find_spec

os.environ[$variable] = $locale  # what locale = "auto" means below
if find_spec("cheap_inference") is None:
    raise ImportError($missing)
""")


def setup_cell(slug: str, publication: Publication, words: Words) -> NotebookNode:
    """The cell for the notebook of a section, in the language of `words`."""
    requirement = publication.requirement
    source = (INSTALLING if requirement else CHECKING).substitute(
        title=words.gettext("Set-up: the book's package, installed in Colab only"),
        left_alone="(" + ", ".join(map(_literal, LEFT_ALONE)) + ")",
        variable=_literal(LOCALE_VARIABLE),
        locale=_literal(words.locale),
        requirement=_literal(requirement),
        missing=_literal(_missing(requirement, words)),
    )
    return new_code_cell(source.strip(), id=f"{slug}-{SETUP}", metadata=FOLDED)


def _missing(requirement: str | None, words: Words) -> str:
    """What a reader without the package is told."""
    if requirement:
        message = words.gettext(
            "The book's package is not installed. Install it, then run this cell again: {command}"
        )
        return message.format(command=f"pip install {requirement}")
    message = words.gettext(
        "The book's package is not installed, and this copy of the notebook does not know the address of "
        "its repository. Install the package from a checkout of the book, then run this cell again: {command}"
    )
    return message.format(command="pip install path/to/checkout")


def _literal(value: str | None) -> str:
    """A string as Python writes it, in the quotes that the book's code has."""
    return json.dumps(value, ensure_ascii=False)
