"""Catalogue files (.po): where they lie, how they are read, written and brought up to date."""

from __future__ import annotations

import io
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path

from babel.messages.catalog import Catalog
from babel.messages.catalog import Message as Entry
from babel.messages.pofile import read_po, write_po

from cheap_inference.records import write_atomically

from .messages import Message

#: How alike two English texts must be for a translation to be offered as a fuzzy one.
ALIKE = 0.75
#: Says of a doubtful entry which English text its translation was made from.
WAS = "was:"
HEADER = """\
msgid ""
msgstr ""
"Language: {language}\\n"
"MIME-Version: 1.0\\n"
"Content-Type: text/plain; charset=utf-8\\n"
"Content-Transfer-Encoding: 8bit\\n"
"Plural-Forms: {plurals}\\n"
"""


def read_folder(folder: Path, locale: str) -> dict[str, Catalog]:
    """All catalogue files of a folder by name; none where there is no folder."""
    return {path.stem: read_catalogue(path, locale) for path in sorted(folder.glob("*.po"))}


def read_catalogue(path: Path, locale: str) -> Catalog:
    """Read one file."""
    with path.open("rb") as file:
        return read_po(file, locale=locale, charset="utf-8")


def updated(
    template: Mapping[str, list[Message]], known: Mapping[str, Catalog], locale: str
) -> dict[str, Catalog]:
    """Catalogues of the template's messages with what is known of them, wherever it stood before.

    A message that is new, and much like one that is gone, gets its translation marked as fuzzy, with
    the English text that it was made from.
    """
    entries = {entry.id: entry for catalogue in known.values() for entry in catalogue if entry.id}
    wanted = {message.id for messages in template.values() for message in messages}
    gone = {
        _text(entry): entry for key, entry in entries.items() if key not in wanted and is_translated(entry)
    }
    return {name: _catalogue(messages, entries, gone, locale) for name, messages in template.items()}


def _catalogue(messages: list[Message], entries: dict, gone: dict[str, Entry], locale: str) -> Catalog:
    catalogue = Catalog(locale=locale)
    for message in messages:
        entry = entries.get(message.id)
        remarks = _remarks(entry) if entry else []
        doubtful = entry is not None and entry.fuzzy
        if entry is None and (close := get_close_matches(message.text, gone, n=1, cutoff=ALIKE)):
            entry, doubtful = gone[close[0]], True
            remarks = [f"{WAS} {close[0]}"]
        catalogue.add(
            message.id,
            _fitting(entry, message),
            flags={"fuzzy"} if doubtful else (),
            auto_comments=[message.note] if message.note else [],
            user_comments=remarks,
        )
    return catalogue


def _remarks(entry: Entry) -> list[str]:
    """A translator's comments; the English text that a doubtful entry came from goes when the doubt goes."""
    return [text for text in entry.user_comments if entry.fuzzy or not text.startswith(WAS)]


def _fitting(entry: Entry | None, message: Message) -> str | tuple[str, ...]:
    """The entry's translation, if it has as many forms as the message needs."""
    if entry is None or isinstance(entry.string, tuple) != bool(message.plural):
        return ""
    return entry.string


def write_catalogue(path: Path, catalogue: Catalog) -> None:
    """Write one file: the same bytes for the same entries, without dates."""
    body = io.BytesIO()
    write_po(body, catalogue, width=0, omit_header=True, ignore_obsolete=True)
    header = HEADER.format(language=catalogue.locale_identifier, plurals=catalogue.plural_forms)
    write_atomically(path, f"{header}\n{body.getvalue().decode().strip()}\n")


def is_translated(entry: Entry) -> bool:
    """Whether every form of the entry is filled in and none of it is in doubt."""
    forms = entry.string if isinstance(entry.string, tuple) else (entry.string,)
    return not entry.fuzzy and all(forms)


def _text(entry: Entry) -> str:
    return entry.id[0] if isinstance(entry.id, tuple) else entry.id
