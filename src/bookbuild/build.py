"""From a checked request to the site: stage, measure, replay, render, assemble."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from html import escape
from pathlib import Path

import yaml

from cheap_inference import records
from cheap_inference.render.words import Words

from .contents import Contents
from .drift import drift_part
from .edition import Edition, stage_edition
from .errors import BuildError
from .html import build_pages
from .layout import Layout
from .origin import made_on
from .progress import Reporter
from .publication import Publication, read_publication
from .schedule import Run, Schedule
from .scores import scoreboard_of, scoreboard_part
from .site import assemble_site
from .stage import stage_notebooks
from .translation.apply import Translator
from .translation.check import incomplete
from .translation.theme import translate_fixed_labels

#: jupyter-book runs are processes of their own.
PAGES_SIDE_BY_SIDE = 2


@dataclass(frozen=True)
class Request:
    """What to build.

    Attributes:
        fresh: measure the sections again even where a record could be trusted.
    """

    contents: Contents
    locales: tuple[str, ...]
    run: Run
    fresh: bool


def build(layout: Layout, request: Request, reporter: Reporter) -> Path:
    """Build the site that holds what was asked for, and return its start page.

    Raises:
        UserError: a notebook refused its parameters, the model or the machine.
        BuildError: a cell failed, or a page did not build.
    """
    publication = read_publication(layout.root)
    for locale in request.locales:
        require_complete(layout, locale)
        stage_notebooks(layout, request.contents, locale)
    execute_sections(layout, request, reporter)
    scoreboard = scoreboard_of(layout)
    render_pages(layout, request, scoreboard, publication, reporter)
    title = yaml.safe_load((layout.root / "_config.yml").read_text(encoding="utf-8"))["title"]
    titles = {locale: Words(locale).gettext(title) for locale in request.locales}
    return assemble_site(layout, request.contents, titles, scoreboard=scoreboard, publication=publication)


def require_complete(layout: Layout, locale: str) -> None:
    """Stop before anything runs if a language has catalogues and they are not complete.

    Raises:
        BuildError: with the first of what is missing, in doubt or stale.
    """
    problems = incomplete(layout, locale) if (layout.translations / locale).is_dir() else []
    if problems:
        raise BuildError(
            f"The translation into {locale!r} has {len(problems)} gaps, the first: {problems[0]}. "
            "All of them: python scripts/translations.py check"
        )


def execute_sections(layout: Layout, request: Request, reporter: Reporter) -> None:
    """Measure what has no record to trust, once and in the first language; replay all the rest."""
    schedule = Schedule(layout, request.run, reporter)
    slugs, first = request.contents.sections, request.locales[0]
    schedule.check(slugs, first)
    wanted = [slug for slug in slugs if request.fresh or not schedule.has_record(slug, first)]
    schedule.measure(wanted, first, fresh=request.fresh)
    schedule.replay(slugs, request.locales)


def render_pages(
    layout: Layout, request: Request, scoreboard: dict, publication: Publication, reporter: Reporter
) -> None:
    """Stage and build the pages of every language."""

    def render(locale: str) -> None:
        generated = generated_parts(layout, request, scoreboard, Words(locale))
        edition = Edition(request.contents, locale, request.locales, request.run.id, generated, publication)
        stage_edition(layout, edition)
        with reporter.step(f"Building the pages ({locale})"):
            build_pages(layout, locale)
            translator = Translator(layout, locale)
            if translator.has_catalogue:
                translate_fixed_labels(layout.html(locale), locale, translator.labels())

    with ThreadPoolExecutor(PAGES_SIDE_BY_SIDE) as pool:
        list(pool.map(render, request.locales))


def generated_parts(layout: Layout, request: Request, scoreboard: dict, words: Words) -> dict[str, str]:
    """What pages show of the records, as HTML by the name of its place."""
    made = [
        records.read(records.path_of(layout.records, request.run.id, slug))
        for slug in request.contents.sections
    ]
    this_build = f"<p>{escape(made_on(made[0].run, words))}</p>" if made else ""
    return {
        "scoreboard": scoreboard_part(scoreboard, request.contents, words),
        "drift": drift_part(layout, request.contents, words),
        "this-build": this_build,
    }
