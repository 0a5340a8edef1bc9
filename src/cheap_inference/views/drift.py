"""The drift page: how each measured value moved over the recorded nights, in small panels of one scale each."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping
from html import escape
from itertools import groupby

from babel.dates import format_date

from ..claims import load, section_titles
from ..claims_file import Claim
from ..drift import WINDOW, Change, Course, Night, courses
from ..render.words import Words
from .sparkline import sparkline

#: Nights that the table lists; the panels show all.
LISTED = 30
#: Where the page of a section finds the file of the history.
DATA = "../history.jsonl"


def drift_html(entries: Iterable[Mapping], words: Words) -> str:
    """The body of the page, from the entries of the history; without any, one sentence says so."""
    found = courses(entries)
    if not found:
        empty = words.gettext("No night has been recorded yet, so there is nothing to compare.")
        return f'<div class="ci-drift">\n<p>{escape(empty)}</p>\n</div>'
    link = f'<a href="{DATA}" download>{escape(words.gettext("the history as data"))}</a>'
    parts = [_course(course, words) for course in found]
    return "\n".join(['<div class="ci-drift">', *parts, f"<p>{link}</p>", "</div>"])


def _course(course: Course, words: Words) -> str:
    name = words.gettext("{model} on {device}").format(model=course.title, device=course.device)
    known = [claim for claim in load() if claim.id in course.series]
    sections = groupby(known, key=lambda claim: claim.section)
    parts = [_section(slug, list(of_section), course, words) for slug, of_section in sections]
    return "\n".join(
        [
            f'<section>\n<h2 id="{escape(course.run)}">{escape(name)}</h2>',
            f"<p>{escape(summary(course, words))}</p>",
            _nights(name, course, words),
            *parts,
            "</section>",
        ]
    )


def summary(course: Course, words: Words) -> str:
    """How many nights there are, and how much of what they measured moved."""
    nights, moves = len(course.nights), sum(moved_in(course))
    sentences = [
        words.ngettext("{n} night is recorded.", "{n} nights are recorded.", nights),
        words.ngettext("{n} move lies beyond the noise.", "{n} moves lie beyond the noise.", moves),
    ]
    text = " ".join(
        sentence.format(n=words.number(n)) for sentence, n in zip(sentences, (nights, moves), strict=True)
    )
    if nights > WINDOW:
        return text
    young = words.gettext("The range that a value must leave is still narrow, so a mark means little so far.")
    return f"{text} {young}"


def moved_in(course: Course) -> list[int]:
    """How many values moved beyond the noise, night by night."""
    moved = [point.night for points in course.series.values() for point in points if point.moved]
    return [moved.count(night) for night in range(len(course.nights))]


def _nights(name: str, course: Course, words: Words) -> str:
    """The newest nights first: when, what was new, how many values moved."""
    headings = (
        words.gettext("Night"),
        words.gettext("Commit"),
        words.gettext("Values beyond the noise"),
        words.gettext("What was new"),
    )
    head = "".join(f'<th scope="col">{escape(heading)}</th>' for heading in headings)
    rows = [_night(*item, words) for item in zip(course.nights, moved_in(course), strict=True)]
    body = "\n".join(rows[::-1][:LISTED])
    return (
        f'<div class="ci-table" role="region" tabindex="0" aria-label="{escape(name)}"><table>\n'
        f"<caption>{escape(words.gettext('The newest nights'))}</caption>\n"
        f"<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table></div>"
    )


def _night(night: Night, moved: int, words: Words) -> str:
    new = words.listed(_change(change, words) for change in night.changes) or "–"
    cells = (night.commit[:12], words.number(moved), new)
    row = "".join(f"<td>{escape(cell)}</td>" for cell in cells)
    return f'<tr><th scope="row">{escape(_date(night.date, words))}</th>{row}</tr>'


def _change(change: Change, words: Words) -> str:
    """Names of libraries are the same in all languages."""
    name = {
        "cpu": words.gettext("processor"),
        "threads": words.gettext("threads"),
        "model": words.gettext("model"),
        "gpu": "GPU",
    }.get(change.name, change.name)
    return f"{name} {change.before} → {change.after}"


def _section(slug: str, claims: list[Claim], course: Course, words: Words) -> str:
    title = words.gettext(section_titles()[slug])
    panels = "\n".join(_panel(claim, course, words) for claim in claims)
    return (
        f'<h3><a href="{escape(slug)}.html">{escape(title)}</a></h3>\n'
        f'<div class="ci-panels">\n{panels}\n</div>'
    )


def _panel(claim: Claim, course: Course, words: Words) -> str:
    """One claim: what it says, its values as a line, the newest value and whether it ever moved."""
    points = course.series[claim.id]
    last = words.quantity(points[-1].value, claim.unit)
    moves = [_date(course.nights[point.night].date, words) for point in points if point.moved]
    told = words.gettext("{value} in the newest night.").format(value=last)
    if moves:
        moved = words.gettext("Moved beyond the noise: {dates}.").format(dates=words.listed(moves))
        told = f"{told} {moved}"
    drawing = sparkline(points, course.nights, ends=_ends(claim, points, words))
    return (
        f'<div class="ci-panel" id="{escape(course.run)}-{escape(claim.id)}">\n'
        f'<p class="ci-claim">{escape(words.gettext(claim.text))}</p>\n{drawing}\n'
        f"<p>{escape(told)}</p>\n</div>"
    )


def _ends(claim: Claim, points: tuple, words: Words) -> tuple[str, str]:
    """The lowest and the highest value that the panel shows, as its scale."""
    low, high = min(point.low for point in points), max(point.high for point in points)
    return words.quantity(low, claim.unit), words.quantity(high, claim.unit)


def _date(iso: str, words: Words) -> str:
    return format_date(datetime.date.fromisoformat(iso), format="medium", locale=words.locale)
