"""Links of the built site: every one that stays inside it must lead to a file, and to an anchor there."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class Anchors(HTMLParser):
    """The links and the anchors of a page."""

    def __init__(self, text: str):
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = {"", "top"}
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        """Collect what leads somewhere and what can be led to."""
        known = dict(attributes)
        self.anchors.add(known.get("id") or "")
        self.links += [known[name] for name in ("href", "src") if known.get(name)]


def dead_links(site: Path) -> list[str]:
    """Every link that leads nowhere, as "page: link"; links to other sites are not followed."""
    pages = {
        path: Anchors(path.read_text(encoding="utf-8")) for path in sorted(site.resolve().rglob("*.html"))
    }
    return [
        f"{path.relative_to(site.resolve())}: {link}"
        for path, page in pages.items()
        for link in page.links
        if not _alive(path, link, pages)
    ]


def _alive(path: Path, link: str, pages: dict[Path, Anchors]) -> bool:
    parts = urlsplit(link)
    if parts.scheme or parts.netloc:
        return True
    target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
    if not target.is_file():
        return False
    return target not in pages or unquote(parts.fragment) in pages[target].anchors
