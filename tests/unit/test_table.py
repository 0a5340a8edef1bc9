"""Tables: locale in the HTML, the C locale in the CSV, varying cells marked."""

import csv
import io

import pytest

from cheap_inference.quantity import Quantity
from cheap_inference.render.table import Column, table
from cheap_inference.render.words import Words

COLUMNS = (
    Column("loop", "Loop"),
    Column("positions", "Positions"),
    Column("time", "Time", unit="ms", varies=True, digits=1),
)
ROWS = (("with <cache>", 1234567, Quantity(9.25, "ms", 9.0, 9.5, 5)), ("without", None, 3.0))


def make(locale="en", **settings):
    return table("speed", COLUMNS, ROWS, Words(locale), caption="Two loops", **settings)


def test_html_is_escaped_localised_and_marked():
    html = make("fr", marked=[1]).data["text/html"]
    assert "with &lt;cache&gt;" in html
    assert "1\u202f234\u202f567" in html
    assert '<td class="number varies">9,2 <span class="spread">(9,0–9,5)</span></td>' in html
    assert html.count('<tr class="marked">') == 1
    assert '<span class="unit">ms</span>' in html
    assert '<td class="number">–</td>' in html


def test_csv_is_raw_with_the_spread():
    rows = list(csv.reader(io.StringIO(make("fr").metadata["csv"])))
    assert rows[0] == ["loop", "positions", "time", "time_low", "time_high", "time_n"]
    assert rows[1] == ["with <cache>", "1234567", "9.25", "9.0", "9.5", "5"]
    assert rows[2] == ["without", "", "3.0", "", "", ""]


def test_the_plain_form_guards_headings_and_size_only():
    plain = make().data["text/plain"]
    assert plain == "Two loops\nLoop | Positions | Time\n2 rows"


def test_a_row_of_another_length_is_an_error():
    with pytest.raises(ValueError, match="speed: a row has 2 cells for 3 columns"):
        table("speed", COLUMNS, [("a", 1)], Words("en"), caption="")
