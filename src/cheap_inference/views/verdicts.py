"""The table of a section's claims: what the chapter reports, what was found here, and the verdict."""

from __future__ import annotations

from html import escape

from ..claims import Claim, Outcome
from ..quantity import Quantity
from ..render.display import Display
from ..render.words import Words

SIGNS = {"holds": "✓", "fails": "✗", "below-noise": "≈", "not-measured": "–"}


def verdict_words(verdict: str, words: Words) -> str:
    """A verdict in words."""
    return {
        "holds": words.gettext("holds here"),
        "fails": words.gettext("does not hold here"),
        "below-noise": words.gettext("below the noise"),
        "not-measured": words.gettext("not measured"),
    }[verdict]


def kind_words(kind: str, words: Words) -> str:
    """The kind of a claim in words."""
    return {
        "exact": words.gettext("exact"),
        "model": words.gettext("model"),
        "machine": words.gettext("machine"),
    }[kind]


def chapter_value(claim: Claim, words: Words) -> str:
    """The chapter's value with the unit it is really in, or a dash."""
    if claim.chapter_value is None:
        return "–"
    unit, value = claim.chapter_unit or claim.unit, claim.chapter_value
    whole = int(value) if float(value).is_integer() else value  # 4.0 is written, and counted, as 4
    return words.amount(words.tick(value), whole, "×" if unit == "ratio" else unit)


def measured_value(value: Quantity | None, words: Words) -> str:
    """The value found here, with its spread where it has one; a dash where nothing was measured."""
    if value is None:
        return "–"
    text = words.quantity(value.value, value.unit)
    return (
        f"{text} ({words.spread(value.low, value.high)})" if value.low is not None and value.n > 1 else text
    )


def verdict_table(outcomes: list[tuple[Claim, Quantity | None, Outcome]], words: Words) -> Display:
    """All claims of a section; what varies from machine to machine is marked as varying."""
    caption = words.gettext("What the chapter claims and what was found here")
    headings = (
        words.gettext("Claim"),
        words.gettext("Verdict"),
        words.gettext("Here"),
        words.gettext("Chapter"),
        words.gettext("Kind"),
    )
    head = "".join(f'<th scope="col">{escape(heading)}</th>' for heading in headings)
    body = "\n".join(_row(claim, value, outcome, words) for claim, value, outcome in outcomes)
    html = (
        f'<div class="ci-table ci-verdicts" role="region" tabindex="0" aria-label="{escape(caption)}"><table>\n'
        f"<caption>{escape(caption)}</caption>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>\n"
        "</table></div>"
    )
    return Display({"text/html": html, "text/plain": caption})


def _row(claim: Claim, value: Quantity | None, outcome: Outcome, words: Words) -> str:
    varies = ' class="varies"' if claim.kind == "machine" else ""
    value_varies = ' class="varies"' if claim.varies else varies
    verdict = f"{SIGNS[outcome.verdict]} {verdict_words(outcome.verdict, words)}"
    cells = [
        f'<th scope="row">{escape(words.gettext(claim.text))}</th>',
        f'<td{varies}><span class="verdict {outcome.verdict}">{escape(verdict)}</span></td>',
        f"<td{value_varies}>{escape(measured_value(value, words))}</td>",
        f"<td>{escape(chapter_value(claim, words))}</td>",
        f"<td>{escape(kind_words(claim.kind, words))}</td>",
    ]
    return f"<tr>{''.join(cells)}</tr>"
