"""Everything that can be wrong with a catalogue, one line each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

from babel.messages.catalog import Catalog
from babel.messages.catalog import Message as Entry

from cheap_inference.render import markup

from ..layout import Layout
from . import numbers, terms, wording
from .catalogues import is_translated, read_folder
from .domains import DOMAINS, Domain
from .messages import Template

#: A translator's comment that lifts a check for one entry: `# allow: same`, `# allow: term, numbers`.
ALLOW = "allow:"
CHECKS = ("same", "term", "numbers", "code", "maths", "target", "tag", "address", "bold")


def problems_of(layout: Layout, locale: str, *, only: str | None = None) -> list[str]:
    """All problems of a language's catalogues, as lines that name file and English text.

    Args:
        only: the name of one catalogue file, such as "kv-cache".
    """
    known = terms.read_terms(layout.translations / terms.TERMS)
    found = []
    for domain in DOMAINS:
        folder = domain.folder(layout, locale)
        template, catalogues = domain.template(layout), read_folder(folder, locale)
        for name in dict.fromkeys([*template, *catalogues]):
            if only in (None, name):
                lines = _of_file(name, template, catalogues, domain, locale, known)
                found += [f"{_shown(layout, folder / f'{name}.po')}: {line}" for line in lines]
    return found


def incomplete(layout: Layout, locale: str) -> list[str]:
    """Problems that leave English on a page: what is missing, in doubt, or made from another text."""
    found = []
    for domain in DOMAINS:
        folder = domain.folder(layout, locale)
        template, catalogues = domain.template(layout), read_folder(folder, locale)
        for name in dict.fromkeys([*template, *catalogues]):
            lines = _completeness(name, template, catalogues)
            found += [f"{_shown(layout, folder / f'{name}.po')}: {line}" for line in lines]
    return found


def _of_file(
    name: str,
    template: Template,
    catalogues: Mapping[str, Catalog],
    domain: Domain,
    locale: str,
    known: tuple[terms.Term, ...],
) -> Iterator[str]:
    yield from _completeness(name, template, catalogues)
    for entry in catalogues.get(name, ()):
        if entry.id and is_translated(entry):
            for problem in entry_problems(entry, locale, known, markdown=domain.markdown):
                yield f"{problem} — in {_quoted(entry)}"


def _completeness(name: str, template: Template, catalogues: Mapping[str, Catalog]) -> Iterator[str]:
    wanted = {message.id: message for message in template.get(name, [])}
    entries = {entry.id: entry for entry in catalogues.get(name, ()) if entry.id}
    for key in wanted:
        entry = entries.get(key)
        if entry is None:
            yield f"missing: {_short(key)}"
        elif entry.fuzzy:
            yield f"in doubt (fuzzy): {_short(key)}"
        elif not is_translated(entry):
            yield f"not translated: {_short(key)}"
    for key in entries:
        if key not in wanted:
            yield f"stale, the English text has changed or moved: {_short(key)}"


def entry_problems(entry: Entry, locale: str, known: tuple[terms.Term, ...], *, markdown: bool) -> list[str]:
    """What is wrong with one translated entry."""
    allowed = allowances(entry)
    if isinstance(entry.id, tuple):
        singular, plural = entry.id
        pairs = [(singular, entry.string[0])] + [(plural, form) for form in entry.string[1:]]
    else:
        pairs = [(entry.id, entry.string)]
    found: list[str] = []
    for source, translation in pairs:
        found += _markup_problems(source, translation, allowed)
        if "numbers" not in allowed:
            found += [f"lacks {text}" for text in numbers.problems(source, translation, locale)]
        if "term" not in allowed:
            found += [f"lacks {text}" for text in terms.problems(source, translation, locale, known)]
        if "same" not in allowed:
            found += wording.problems(source, translation)
        if markdown and "\n" in translation:
            found.append("has a line break")
        if (
            source[:1].isspace() != translation[:1].isspace()
            or source[-1:].isspace() != translation[-1:].isspace()
        ):
            found.append("begins or ends with a space and should not, or should and does not")
    return list(dict.fromkeys(found))


def allowances(entry: Entry) -> set[str]:
    """The checks that a translator's comment lifts for the entry."""
    found: set[str] = set()
    for comment in entry.user_comments:
        head, mark, names = comment.partition(ALLOW)
        if mark and not head.strip():
            found |= {name.strip() for name in names.split(",")}
    return found


def _markup_problems(source: str, translation: str, allowed: set[str]) -> list[str]:
    there, wanted = Counter(markup.parts(translation)), Counter(markup.parts(source))
    found = [f"lacks {kind} {text}" for kind, text in wanted - there if kind not in allowed]
    found += [
        f"has {kind} {text}, the English text has not" for kind, text in there - wanted if kind not in allowed
    ]
    if "bold" not in allowed and source.count("**") != translation.count("**"):
        found.append("differs in **bold** marks")
    return found


def _shown(layout: Layout, path: Path) -> str:
    return path.relative_to(layout.root).as_posix()


def _short(key: str | tuple[str, str]) -> str:
    text = key[0] if isinstance(key, tuple) else key
    return f"“{text[:80]}{'…' if len(text) > 80 else ''}”"


def _quoted(entry: Entry) -> str:
    return _short(entry.id)
