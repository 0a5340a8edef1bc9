"""The scoreboard's page: every claim by section, with the value and the verdict of each run."""

from __future__ import annotations

from collections import Counter
from html import escape
from itertools import groupby

from ..claims import VERDICTS, load, section_titles
from ..claims_file import KINDS
from ..render.words import Words
from .verdicts import SIGNS, chapter_value, kind_words, verdict_words

# Runs without a server: hides the rows that the two menus leave out, and sections left empty.
SCRIPT = """<script>
(() => {
  const board = document.querySelector(".ci-scoreboard");
  const form = board.querySelector("form");
  const count = form.querySelector("output");
  const menus = [...form.querySelectorAll("select")];
  const rows = [...board.querySelectorAll("tr[data-kind]")];
  const wanted = (row) => menus.every((m) => !m.value || row.dataset[m.name].split(" ").includes(m.value));
  const apply = () => {
    rows.forEach((row) => { row.hidden = !wanted(row); });
    board.querySelectorAll("section").forEach((section) => {
      section.hidden = !section.querySelector("tr[data-kind]:not([hidden])");
    });
    const shown = rows.filter((row) => !row.hidden).length;
    count.textContent = count.dataset.template.replace("{shown}", shown);
  };
  form.addEventListener("input", apply);
  form.hidden = false;
  apply();
})();
</script>"""


def scoreboard_html(board: dict, words: Words) -> str:
    """The body of the scoreboard's page, from the board that `cheap_inference.scoreboard.build` makes."""
    sections = groupby(board["claims"], key=lambda entry: entry["section"])
    parts = [
        _summary(board, words),
        _filters(len(board["claims"]), words),
        *(_section(slug, list(entries), board["runs"], words) for slug, entries in sections),
    ]
    return "\n".join(['<div class="ci-scoreboard">', *parts, SCRIPT, "</div>"])


def _summary(board: dict, words: Words) -> str:
    """A line of counts for each run."""
    if not board["runs"]:
        empty = words.gettext("No run has been recorded yet.")
        return f"<p>{escape(empty)}</p>"
    verdicts = "".join(f'<th scope="col">{escape(_signed(verdict, words))}</th>' for verdict in VERDICTS)
    lines = []
    for run in board["runs"]:
        counts = Counter(entry["results"][run["id"]]["verdict"] for entry in board["claims"])
        cells = "".join(f'<td class="number">{words.number(counts[verdict])}</td>' for verdict in VERDICTS)
        lines.append(f'<tr><th scope="row">{escape(_run_name(run, words))}</th>{cells}</tr>')
    caption, run_heading = words.gettext("Claims by verdict, for each run"), words.gettext("Run")
    head = f'<tr><th scope="col">{escape(run_heading)}</th>{verdicts}</tr>'
    return _table(caption, head, lines)


def _filters(total: int, words: Words) -> str:
    """Two menus and a live count; hidden until the script runs, since they need it."""
    template = words.ngettext("{shown} of {total} claim shown", "{shown} of {total} claims shown", total)
    template = template.format(shown="{shown}", total=words.number(total))
    kinds = [(kind, kind_words(kind, words)) for kind in KINDS]
    verdicts = [(verdict, _signed(verdict, words)) for verdict in VERDICTS]
    return (
        '<form class="ci-filters" hidden>\n'
        + _menu("kind", words.gettext("Kind"), words.gettext("all kinds"), kinds)
        + _menu("verdict", words.gettext("Verdict"), words.gettext("all verdicts"), verdicts)
        + f'<output aria-live="polite" data-template="{escape(template)}"></output>\n</form>'
    )


def _menu(name: str, label: str, everything: str, choices: list[tuple[str, str]]) -> str:
    options = "".join(
        f'<option value="{value}">{escape(text)}</option>' for value, text in [("", everything), *choices]
    )
    return f'<label>{escape(label)} <select name="{name}">{options}</select></label>\n'


def _section(slug: str, entries: list[dict], runs: list[dict], words: Words) -> str:
    title = words.gettext(section_titles()[slug])
    claims = {claim.id: claim for claim in load()}
    rows = [_row(entry, chapter_value(claims[entry["id"]], words), runs, words) for entry in entries]
    return (
        f'<section>\n<h2 id="{escape(slug)}"><a href="{escape(slug)}.html">{escape(title)}</a></h2>\n'
        f"{_table(title, _head(runs, words), rows)}\n</section>"
    )


def _head(runs: list[dict], words: Words) -> str:
    """Headings; with runs, two lines of them: the run above its value and its verdict."""
    names = (words.gettext("Claim"), words.gettext("Kind"), words.gettext("Chapter"))
    rows = 2 if runs else 1
    first = "".join(f'<th scope="col" rowspan="{rows}">{escape(name)}</th>' for name in names)
    first += "".join(f'<th scope="colgroup" colspan="2">{escape(_run_name(run, words))}</th>' for run in runs)
    pair = "".join(
        f'<th scope="col">{escape(name)}</th>' for name in (words.gettext("Here"), words.gettext("Verdict"))
    )
    return f"<tr>{first}</tr>" + (f"<tr>{pair * len(runs)}</tr>" if runs else "")


def _row(entry: dict, chapter: str, runs: list[dict], words: Words) -> str:
    results = [entry["results"][run["id"]] for run in runs]
    verdicts = " ".join(sorted({result["verdict"] for result in results} or {"not-measured"}))
    cells = [
        f'<th scope="row">{escape(words.gettext(entry["text"]))}</th>',
        f"<td>{escape(kind_words(entry['kind'], words))}</td>",
        f'<td class="number">{escape(chapter)}</td>',
        *(_result(result, entry["unit"], words) for result in results),
    ]
    return (
        f'<tr id="{entry["id"]}" data-kind="{entry["kind"]}" data-verdict="{verdicts}">{"".join(cells)}</tr>'
    )


def _result(result: dict, unit: str, words: Words) -> str:
    value = "–" if result["value"] is None else words.quantity(result["value"], unit)
    note = note_words(result["note"], words)
    small = f"<br><small>{escape(note)}</small>" if note else ""
    verdict = result["verdict"]
    return (
        f'<td class="number">{escape(value)}</td>'
        f'<td><span class="verdict {verdict}">{escape(_signed(verdict, words))}</span>{small}</td>'
    )


def note_words(code: str, words: Words) -> str:
    """A note code in words; nothing where there is no note."""
    return {
        "": "",
        "spread": words.gettext("the spread covers the threshold"),
        "agrees": words.gettext("agrees with the chapter's number"),
        "differs": words.gettext("differs from the chapter's number"),
        "no-record": words.gettext("the section has not been run"),
        "not-registered": words.gettext("not part of this run"),
        "not-finite": words.gettext("no finite number"),
    }[code]


def _signed(verdict: str, words: Words) -> str:
    """A verdict as a sign and words, so that colour is never needed."""
    return f"{SIGNS[verdict]} {verdict_words(verdict, words)}"


def _run_name(run: dict, words: Words) -> str:
    return words.gettext("{model} on {device}").format(model=run["model"]["title"], device=run["device"])


def _table(caption: str, head: str, rows: list[str]) -> str:
    body = "\n".join(rows)
    return (
        f'<div class="ci-table" role="region" tabindex="0" aria-label="{escape(caption)}"><table>\n'
        f"<caption>{escape(caption)}</caption>\n<thead>{head}</thead>\n<tbody>\n{body}\n</tbody>\n"
        "</table></div>"
    )
