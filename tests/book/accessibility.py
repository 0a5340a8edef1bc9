"""What axe finds serious on a page."""

from __future__ import annotations

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

GRAVE = ("serious", "critical")
OPTIONS = {
    # axe would load style sheets once more, from where their own imports do not resolve.
    "preload": False,
    # To describe everything that passed would take longer than all the rules.
    "resultTypes": ["violations"],
}


def grave_violations(page: Page, *, colours: bool = True) -> list[str]:
    """Serious and critical violations, each with the beginning of the element that it is about.

    Args:
        colours: look at the contrast too, which is most of the work.
    """
    options = OPTIONS | {"rules": {"color-contrast": {"enabled": colours}}}
    return [
        f"{violation['id']}: {node['html'][:120]}"
        for violation in Axe().run(page, options=options).response["violations"]
        if violation["impact"] in GRAVE
        for node in violation["nodes"]
    ]
