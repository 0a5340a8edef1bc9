"""Licences of what the book is built with, from the packages' own metadata: none that nobody has looked at."""

from __future__ import annotations

import re
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path

#: SPDX identifiers of licences that ask for no more than to be named, or to share changes of the file itself.
PERMITTED = frozenset(
    {
        "0BSD",
        "Apache-2.0",
        "BSD-2-Clause",
        "BSD-3-Clause",
        "BSL-1.0",
        "CC0-1.0",
        "CNRI-Python",
        "HPND",
        "ISC",
        "LLVM-exception",
        "MIT",
        "MIT-CMU",
        "MPL-2.0",
        "OFL-1.1",
        "PSF-2.0",
        "Python-2.0",
        "Unlicense",
        "Zlib",
    }
)
#: What packages without an SPDX expression call the same licences, in their classifiers or in their own words.
OWN_NAMES = {
    "Apache Software License": "Apache-2.0",
    "Apache 2.0": "Apache-2.0",
    "Apache 2.0 License": "Apache-2.0",
    "BSD": "BSD-3-Clause",
    "BSD License": "BSD-3-Clause",
    "BSD 3-Clause License": "BSD-3-Clause",
    "ISC License (ISCL)": "ISC",
    "MIT License": "MIT",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "Python Software Foundation License": "PSF-2.0",
    "Public Domain": "CC0-1.0",
}
#: Packages with another licence, each looked at: why the book may be built with it.
LOOKED_AT = {
    "axe-playwright-python": "MIT, stated in a file of the package alone",
    "docutils": "public domain, BSD and PSF in what is used; one file, an Emacs mode, is GPL",
    "translate-toolkit": "GPL: a tool of the build, and no part of the package or of the site",
}
PIN = re.compile(r"^(?P<name>[\w.-]+)==", re.MULTILINE)


def pinned(path: Path) -> list[str]:
    """Names of the packages that a requirements file pins."""
    return PIN.findall(path.read_text(encoding="utf-8"))


def unknown_licences(names: Iterable[str]) -> list[str]:
    """The installed packages of these names whose licence nobody has looked at, as "name: licence"."""
    found = []
    for name in names:
        try:
            licence = licence_of(metadata.metadata(name))
        except metadata.PackageNotFoundError:
            continue  # a pin for another system or another Python
        if name not in LOOKED_AT and not permitted(licence):
            found.append(f"{name}: {licence or 'none stated'}")
    return found


def licence_of(package: metadata.PackageMetadata) -> str:
    """The SPDX expression; else the classifiers, one of which must do; else what the package says."""
    if package.get("License-Expression"):
        return package["License-Expression"]
    classifiers = [text for text in package.get_all("Classifier") or [] if text.startswith("License :: ")]
    names = [text.rpartition(" :: ")[2] for text in classifiers]
    named = [OWN_NAMES.get(name, name) for name in names if name != "OSI Approved"]
    if named:
        return " AND ".join(named)
    own = (package.get("License") or "").strip().partition("\n")[0]
    return OWN_NAMES.get(own, own)


def permitted(licence: str) -> bool:
    """Whether an SPDX expression holds only permitted licences, or offers the choice of one."""
    group = re.search(r"\(([^()]*)\)", licence)
    if group:
        return permitted(licence.replace(group[0], "MIT" if permitted(group[1]) else "another"))
    choices = re.split(r"\s+OR\s+", licence)
    return any(set(re.split(r"\s+(?:AND|WITH)\s+", choice.strip())) <= PERMITTED for choice in choices)
