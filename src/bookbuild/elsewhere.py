"""What a section found on machines that this build has not: its committed records, dated, below the page."""

from __future__ import annotations

from html import escape

from cheap_inference import claims, records
from cheap_inference.quantity import Quantity
from cheap_inference.records import Record
from cheap_inference.render.words import Words
from cheap_inference.views.verdicts import verdict_table

from .layout import Layout
from .origin import made_on


def elsewhere(layout: Layout, slug: str, run_id: str, words: Words) -> str:
    """HTML with the verdicts of every committed record of the section; empty where there is none.

    Args:
        run_id: the run that the page itself shows; a committed record of it is no other machine's.
    """
    paths = sorted(layout.committed_records.glob(f"*/{slug}.json"))
    others = [record for record in map(records.read, paths) if record and record.run["id"] != run_id]
    if not others:
        return ""
    told = words.gettext("The same notebook was run elsewhere. What it found there is kept with its date:")
    parts = "\n".join(_record(record, words) for record in others)
    return f'<div class="ci-elsewhere">\n<p>{escape(told)}</p>\n{parts}\n</div>'


def _record(record: Record, words: Words) -> str:
    name = words.gettext("{model} on {device}").format(
        model=record.run["model"]["title"], device=record.run["device"]
    )
    outcomes = [
        (claim, quantity, claims.evaluate(claim, quantity, model_name=record.run["model"]["name"]))
        for claim in claims.claims_of(record.section)
        for quantity in [_quantity(record.claims.get(claim.id))]
    ]
    return (
        f"<details>\n<summary>{escape(name)}</summary>\n<p>{escape(made_on(record.run, words))}</p>\n"
        f"{verdict_table(outcomes, words).data['text/html']}\n</details>"
    )


def _quantity(encoded: dict | None) -> Quantity | None:
    return None if encoded is None else Quantity(**encoded)
