"""Units of Markdown, and the same Markdown with its units translated."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from bookbuild.contents import read_contents
from bookbuild.errors import BuildError
from bookbuild.stage import read_source
from bookbuild.translation.messages import Message, distributed
from bookbuild.translation.prose import translated, units

TEXT = """\
# A title

Some *words* with `code`, $x_i$ and [a link](kv-cache.md#top).

<details>
<summary>Predict first</summary>

How many?

</details>

$$\\sum_i x_i$$

**a term**
: Its meaning.

- one item
- another

| A | B |
|---|---|
| cell | `only code` |

```
make book
```
"""


def test_units_are_what_has_words_in_the_order_of_the_text():
    assert units(TEXT) == [
        ("A title", "heading"),
        ("Some *words* with `code`, $x_i$ and [a link](kv-cache.md#top).", "paragraph"),
        ("Predict first", "summary"),
        ("How many?", "paragraph"),
        ("**a term**", "paragraph"),
        ("Its meaning.", "paragraph"),
        ("one item", "item"),
        ("another", "item"),
        ("A", "cell"),
        ("B", "cell"),
        ("cell", "cell"),
    ]


def test_only_units_change():
    text = translated(TEXT, lambda unit: f"<{unit}>")
    assert "# <A title>\n" in text
    assert "<summary><Predict first></summary>\n\n<How many?>" in text
    assert "**a term**>\n: <Its meaning.>" in text
    assert "\n$$\\sum_i x_i$$\n" in text
    assert "```\nmake book\n```" in text
    assert "`only code`" in text


def test_words_in_html_that_nobody_could_translate_are_refused():
    with pytest.raises(BuildError, match="Words inside HTML cannot be translated"):
        units('<div class="x">Some words</div>')


@pytest.mark.parametrize(
    "formula",
    [
        "$\\text{speedup} = 2$",
        "$$\\frac{\\mathrm{weights}}{C}$$",
        "$speedup$",
        "$q_{max}$",
        "$\\alpha = 0.3$",
        "$n = 2{,}048$",
    ],
)
def test_words_and_separators_in_a_formula_are_refused(formula):
    with pytest.raises(BuildError, match="inside a formula cannot be translated"):
        units(f"It is {formula} here.")


@pytest.mark.parametrize(
    "text",
    [
        "$q_{\\max} = 2^{b-1} - 1$",
        "$\\tfrac{d}{3}\\,T(T+1)$",
        "$$\\begin{aligned} a &= b \\end{aligned}$$",
        "`$text` or `$0.5`",
        "```\n$abc def$\n```",
    ],
)
def test_symbols_and_code_are_no_words_in_a_formula(text):
    units(text)


def test_every_text_of_the_book_survives_a_translation_into_itself(repository):
    contents = read_contents(repository.root)
    texts = [(repository.pages / f"{page}.md").read_text(encoding="utf-8") for page in contents.pages]
    for slug in contents.sections:
        notebook = read_source(repository.sources / f"{slug}.md")
        texts += [cell.source for cell in notebook.cells if cell.cell_type == "markdown"]
    assert [text for text in texts if flat(translated(text, lambda unit: unit)) != flat(text)] == []


def flat(text: str) -> str:
    """Without what the reader may lay out anew: the width of a table's columns."""
    return " ".join(text.replace("-", " ").split())


def test_what_several_pages_say_is_translated_once():
    shared, plural = Message("Sources"), Message("{n} row", "{n} rows")
    template = distributed({"a": [Message("A"), shared], "b": [shared, plural, Message("{n} row")]})
    assert template == {"common": [shared], "a": [Message("A")], "b": [plural]}


@pytest.fixture
def eager_threads():
    """Threads that take over from each other at every turn."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(usual)


@pytest.mark.usefixtures("eager_threads")
def test_languages_are_translated_side_by_side(repository):
    text = (repository.pages / "glossary.md").read_text(encoding="utf-8")
    wanted = {unit for unit, _ in units(text)}
    seen: set[str] = set()

    def noted(unit):
        seen.add(unit)
        return unit

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: translated(text, noted), range(40)))
    assert seen == wanted
