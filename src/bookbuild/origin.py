"""The line that closes a section's page: on what, with what and when it was measured, and the data."""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from html import escape

from babel.dates import format_date

from cheap_inference.records import Record
from cheap_inference.render.words import Words


def origin_of(record: Record, tables: Iterable[str], words: Words) -> str:
    """The line as HTML, with links to the tables' data, the record and the notebook."""
    return (
        f'<div class="ci-origin">\n<p>{escape(made_on(record.run, words))}</p>\n'
        f"<p>{' · '.join(_links(record, tables, words))}</p>\n</div>"
    )


def made_on(run: dict, words: Words) -> str:
    """Model, machine, versions and date of a run, in one sentence."""
    machine, versions = run["machine"], run["versions"]
    threads = words.ngettext("{n} thread", "{n} threads", machine["threads"]).format(n=machine["threads"])
    libraries = ", ".join(f"{name} {version}" for name, version in versions.items())
    sentence = words.gettext("Measured on {date} with {model} on {cpu} ({isa}, {threads}), {libraries}.")
    if machine.get("gpu"):
        sentence = words.gettext(
            "Measured on {date} with {model} on {gpu}, driven by {cpu} ({isa}, {threads}), {libraries}."
        )
    return sentence.format(
        gpu=machine.get("gpu"),
        date=format_date(datetime.date.fromisoformat(run["date"]), format="long", locale=words.locale),
        model=run["model"]["title"],
        cpu=machine["cpu"],
        isa=machine["isa"],
        threads=threads,
        libraries=libraries,
    )


def _links(record: Record, tables: Iterable[str], words: Words) -> list[str]:
    """Links that work from a page of the site, wherever the site lies."""
    data = [(f"../data/{record.section}/{name}.csv", f"{name}.csv") for name in tables]
    kept = (f"../records/{record.run['id']}/{record.section}.json", words.gettext("record"))
    notebook = (f"../notebooks/{words.locale}/{record.section}.ipynb", words.gettext("notebook"))
    links = [*data, kept, notebook]
    return [f'<a href="{escape(target)}" download>{escape(text)}</a>' for target, text in links]
