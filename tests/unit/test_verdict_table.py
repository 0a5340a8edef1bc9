"""Which cells of the verdict table a regression test masks."""

import re

import pytest

from cheap_inference.claims import Outcome
from cheap_inference.claims_file import Claim
from cheap_inference.quantity import Quantity
from cheap_inference.render.words import Words
from cheap_inference.views.verdicts import verdict_table


@pytest.mark.parametrize(
    ("kind", "varies", "masked"),
    [
        ("exact", False, []),
        ("model", False, []),
        ("model", True, ["1.50 ×"]),
        ("machine", False, ["✓ holds here", "1.50 ×"]),
    ],
)
def test_a_value_that_moves_is_masked_and_a_verdict_only_where_machines_differ(kind, varies, masked):
    claim = Claim("first.a", "first", kind, "It grows.", "above", 1, "ratio", varies=varies)
    outcomes = [(claim, Quantity(1.5, "ratio"), Outcome("holds"))]
    html = verdict_table(outcomes, Words("en")).data["text/html"]
    cells = re.findall(r'<td class="varies">(.*?)</td>', html)
    assert [re.sub("<.*?>", "", cell).replace("\u00a0", " ") for cell in cells] == masked
