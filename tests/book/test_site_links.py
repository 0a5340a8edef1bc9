"""Links of a built site."""

from __future__ import annotations

from bookbuild.site_links import dead_links


def test_only_links_that_lead_nowhere_are_found(tmp_path):
    (tmp_path / "en").mkdir()
    (tmp_path / "en" / "a b.html").write_text('<h2 id="här">x</h2>', encoding="utf-8")
    (tmp_path / "data.csv").write_text("1", encoding="utf-8")
    links = [
        "a%20b.html#h%C3%A4r",
        "a%20b.html?x=1",
        "#top",
        "../data.csv",
        "https://example.org/gone",
        "a%20b.html#gone",
        "gone.html",
        "../en",
    ]
    page = "".join(f'<a href="{link}">x</a>' for link in links) + '<img src="gone.png"><p id="own">'
    (tmp_path / "en" / "index.html").write_text(page, encoding="utf-8")
    assert dead_links(tmp_path) == [
        "en/index.html: a%20b.html#gone",
        "en/index.html: gone.html",
        "en/index.html: ../en",
        "en/index.html: gone.png",
    ]
