"""The arguments of `scripts/build.py`, checked as a whole before anything long starts."""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from cheap_inference.errors import UserError
from cheap_inference.models import KNOWN_MODELS, ModelSpec, resolve, resolve_device
from cheap_inference.settings import DEVICES, LOCALES, one_of

from .build import Request, build
from .contents import read_contents
from .errors import BuildError, Interrupted
from .languages import translated
from .layout import Layout
from .progress import Reporter
from .schedule import Run

ALL = "all"


class Parser(argparse.ArgumentParser):
    """argparse with one line an error, without the usage before it."""

    def error(self, message: str) -> NoReturn:
        raise UserError(f"{message} (see --help).")


@dataclass(frozen=True)
class Arguments:
    """What was typed, unchecked."""

    model: str
    device: str
    locale: list[str]
    section: list[str] | None
    fresh: bool


def main(root: Path, argv: list[str] | None = None) -> int:
    """Build what the arguments ask for and return the command's exit status."""
    layout = Layout(root)
    try:
        with Reporter() as reporter:
            start = build(layout, checked(layout, parsed(argv)), reporter)
    except UserError as error:
        return failed(error, 2)
    except BuildError as error:
        return failed(error, 1)
    except (KeyboardInterrupt, Interrupted):
        return failed("Interrupted: run the same command again to go on from here.", 130)
    print(start)
    return 0


def parsed(argv: list[str] | None) -> Arguments:
    """Parse the command line.

    Raises:
        UserError: it has an unknown option or an option without a value.
    """
    parser = Parser(
        description="Execute the notebooks and build the site in _build/site.", allow_abbrev=False
    )
    parser.add_argument("--model", default="auto", help="a known name, a hub id, a folder or a .gguf file")
    parser.add_argument("--device", default="auto", help=", ".join(DEVICES))
    parser.add_argument(
        "--locale", nargs="+", default=[ALL], help=f"{', '.join(LOCALES)} or {ALL}: the languages of the site"
    )
    parser.add_argument(
        "--section", nargs="+", metavar="SLUG", help="the sections of the site (default: every one)"
    )
    parser.add_argument("--fresh", action="store_true", help="measure again what has a record")
    return Arguments(**vars(parser.parse_args(argv)))


def checked(layout: Layout, arguments: Arguments) -> Request:
    """The arguments as a request that can be built.

    Raises:
        UserError: a value that is unknown, or that this machine cannot do.
    """
    contents = read_contents(layout.root)
    for slug in arguments.section or ():
        one_of("--section", slug, contents.sections)
    for locale in arguments.locale:
        one_of("--locale", locale, (*LOCALES, ALL))
    device = resolve_device(one_of("--device", arguments.device, DEVICES))
    spec = resolve(arguments.model, device=device)
    locales = translated(layout) if ALL in arguments.locale else tuple(dict.fromkeys(arguments.locale))
    return Request(
        contents=contents.only(tuple(arguments.section)) if arguments.section else contents,
        locales=locales,
        run=Run(id=f"{spec.name}-{device}", model=parameter_for(spec), device=device),
        fresh=arguments.fresh,
    )


def parameter_for(spec: ModelSpec) -> str:
    """The `model` parameter that means this very model in any folder, now and at the next build."""
    if spec.name in KNOWN_MODELS:
        return spec.name
    return f"{spec.location}@{spec.revision}" if spec.kind == "hub" else spec.location


def failed(reason: object, status: int) -> int:
    """Say why on stderr, in one line, and return the exit status."""
    print(reason, file=sys.stderr)
    return status
