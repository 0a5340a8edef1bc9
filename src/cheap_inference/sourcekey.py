"""Which code a measurement came from, as a digest that ignores comments and wording.

A record is trusted only while the code that made it is unchanged. What counts as that code is
found by reading it: the modules of this package that a notebook's cells reach by import, without
the ones that only render (`views`, `render`), and the code cells themselves.
"""

from __future__ import annotations

import ast
import hashlib
import json
from pathlib import Path

PACKAGE = Path(__file__).parent
#: Parts of the package that turn records into words and pictures: no measured value depends on them.
RENDERING = ("views", "render", "scoreboard", "claims", "claims_file", "settings", "section")
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
#: A notebook reaches the loader through its section object rather than by an import of its own.
ALWAYS = "import cheap_inference.models.load"


def notebook_cells(path: Path) -> list[str]:
    """Sources of the code cells of an .ipynb, without the ones tagged `parameters`."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    code = (cell for cell in cells if cell["cell_type"] == "code")
    kept = (cell for cell in code if "parameters" not in cell["metadata"].get("tags", []))
    return ["".join(cell["source"]) for cell in kept]


def normalised(source: str) -> str:
    """The syntax tree of `source` as text: comments, docstrings and layout are gone."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            node.body[:1] = [] if len(node.body) > 1 else [ast.Pass()]
    return ast.dump(tree)


def imported_modules(source: str, *, package: str) -> set[str]:
    """Dotted names, inside `cheap_inference`, that `source` imports; `package` resolves relative ones."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            parts = package.split(".")
            parent = ".".join(parts[: len(parts) - node.level + 1]) if node.level else ""
            base = ".".join(filter(None, (parent, node.module)))
            found |= {base} | {f"{base}.{alias.name}" for alias in node.names}
    return {name for name in found if name.split(".")[0] == PACKAGE.name}


def module_file(name: str) -> Path | None:
    """The file of a module of this package, None where the name is no module (a function, say)."""
    path = PACKAGE.parent.joinpath(*name.split("."))
    for candidate in (path.with_suffix(".py"), path / "__init__.py"):
        if candidate.exists():
            return candidate
    return None


def reached_files(sources: list[str]) -> list[Path]:
    """Files of this package that the sources reach by import, rendering left out, in a fixed order."""
    waiting = {name for source in sources for name in imported_modules(source, package=PACKAGE.name)}
    seen: dict[str, Path] = {}
    while waiting:
        name = waiting.pop()
        path = module_file(name)
        if name in seen or path is None or (name.split(".")[1:2] and name.split(".")[1] in RENDERING):
            continue
        seen[name] = path
        package = name if path.name == "__init__.py" else name.rpartition(".")[0]
        waiting |= imported_modules(path.read_text(encoding="utf-8"), package=package)
    return sorted(set(seen.values()))


def named_data(source: str) -> list[Path]:
    """Data files of the package whose name stands as a string in `source`: a text, a list of questions."""
    strings = {node.value for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Constant)}
    files = (path for path in PACKAGE.joinpath("data").rglob("*") if path.is_file())
    return sorted(path for path in files if path.name in strings)


def code_digest(cells: list[str]) -> str:
    """Digest of the cells, of every measuring module that they reach, and of the data those name."""
    digest = hashlib.sha256()
    for cell in cells:
        digest.update(normalised(cell).encode())
    for path in reached_files([*cells, ALWAYS]):
        digest.update(path.relative_to(PACKAGE).as_posix().encode())
        source = path.read_text(encoding="utf-8")
        digest.update(normalised(source).encode())
        for data in named_data(source):
            digest.update(data.read_bytes())
    return digest.hexdigest()
