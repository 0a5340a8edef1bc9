"""The arguments of `scripts/gpu_check.py`."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from cheap_inference.errors import UserError

from .cli import Arguments, Parser, checked
from .errors import BuildError, Interrupted
from .gpu_check import known_name, run_check
from .layout import Layout
from .progress import Reporter

#: Nothing is fetched: what is not in the files given is refused at once, and not after a minute of tries.
OFFLINE = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "PIP_NO_INDEX": "1"}
MODEL_VARIABLE = "CHEAP_INFERENCE_CHECK_MODEL"


def main(root: Path, argv: list[str] | None = None) -> int:
    """Run the check and return the exit status: 0 where every section measured, 1 where one did not."""
    os.environ |= OFFLINE | {"PYTHONPATH": _search_path(root)}
    try:
        options = _parser().parse_args(argv)
        arguments = Arguments(known_name(options.model), options.device, ["en"], options.sections, fresh=True)
        request = checked(Layout(root), arguments)
        with Reporter() as reporter:
            outcomes = run_check(root, request, reporter, out=Path(options.out), seconds=60 * options.minutes)
    except (UserError, BuildError) as error:
        print(error, file=sys.stderr)
        return 2
    except (KeyboardInterrupt, Interrupted):
        print("Interrupted.", file=sys.stderr)
        return 130
    print((Path(options.out) / "report.md").read_text(encoding="utf-8"))
    return int(any(outcome.problem for outcome in outcomes))


def _search_path(root: Path) -> str:
    """Where the kernels find the package, installed or not."""
    return os.pathsep.join(filter(None, [str(root / "src"), os.environ.get("PYTHONPATH")]))


def _parser() -> Parser:
    parser = Parser(
        description="Measure the whole book on this machine's GPU, without a network, and bring back "
        "report.md and records.zip (unpack it under records/).",
        allow_abbrev=False,
    )
    parser.add_argument(
        "--model",
        default=os.environ.get(MODEL_VARIABLE, "auto"),
        help=f"a .gguf file, a model's folder, or a name whose files are in the cache (${MODEL_VARIABLE})",
    )
    parser.add_argument("--device", default="cuda", help="cuda, or cpu to try the check itself")
    parser.add_argument("--sections", nargs="+", metavar="SLUG", help="default: every one")
    parser.add_argument("--out", default="_build/gpu-check", help="folder (default: %(default)s)")
    parser.add_argument(
        "--minutes", type=float, default=7.5, help="time for all of it (default: %(default)s)"
    )
    return parser
