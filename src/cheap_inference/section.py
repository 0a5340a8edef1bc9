"""What a notebook calls: it opens a section, measures or replays, shows, and gives its verdicts."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

from . import claims, records
from .errors import UserError
from .models import ModelSpec, resolve, resolve_device
from .quantity import Quantity
from .render.words import Words
from .runs import describe_run, key_of
from .settings import AUTO, LOCALES, MODES, SOURCE_LOCALE, check, one_of

if TYPE_CHECKING:
    from .models.load import LoadedModel

#: Where records are kept; unset, as in a reader's own session, everything is measured and nothing stored.
RECORDS_VARIABLE = "CHEAP_INFERENCE_RECORDS"
#: Folder of the .ipynb that is being executed: its code cells are part of a record's key.
NOTEBOOKS_VARIABLE = "CHEAP_INFERENCE_NOTEBOOKS"
#: auto: replay what can be trusted, measure the rest; fresh: measure all; replay: never measure.
MODE_VARIABLE = "CHEAP_INFERENCE_MODE"
#: What `locale="auto"` means; unset: English. The first cell of a published notebook sets its language.
LOCALE_VARIABLE = "CHEAP_INFERENCE_LOCALE"


class Section:
    """A section that a notebook has opened. Made by `open_section`."""

    def __init__(self, record: records.Record, *, path: Path | None, spec: ModelSpec, words: Words):
        self.record = record
        self.path = path
        self.spec = spec
        self.words = words
        self.device: str = record.run["device"]
        self.parts = SimpleNamespace(**{name: records.decode(part) for name, part in record.parts.items()})
        self._claimed: dict[str, Quantity | None] = {}

    @cached_property
    def lm(self) -> LoadedModel:
        """The model, loaded when a measurement first asks for it (fp32 on a CPU)."""
        from .models.load import load

        return load(self.spec, device=self.device)

    def measure(self, name: str, function: Callable[[], object]) -> object:
        """Return the part `name`: from the record if it is there, else by calling `function`.

        The result is read by attribute either way: objects come back as namespaces, tuples as lists.

        Raises:
            UserError: only replaying was asked for and the record lacks the part.
        """
        if name not in self.record.parts:
            if os.environ.get(MODE_VARIABLE) == "replay":
                raise UserError(
                    f"No trusted record of {name!r} in {self.record.section}: build it without replay."
                )
            self.record.parts[name] = records.encode(function())
            self._store()
        part = records.decode(self.record.parts[name])
        setattr(self.parts, name, part)
        return part

    def show(self, view: Callable[[SimpleNamespace, Words], object]) -> object:
        """Render a view of what has been measured so far, in the reader's language."""
        return view(self.parts, self.words)

    def claim(self, claim_id: str, value: Quantity | bool | int | float | None) -> None:
        """Register the value measured for one of the section's claims; None: it cannot be measured here.

        Raises:
            KeyError: the section has no such claim.
        """
        claim = {item.id: item for item in claims.claims_of(self.record.section)}[claim_id]
        plain = value is None or isinstance(value, Quantity)
        self._claimed[claim_id] = value if plain else Quantity(value, claim.unit)

    def verdicts(self) -> object:
        """Show every claim of the section with its verdict, and keep the values in the record.

        Raises:
            AssertionError: a claim was forgotten, or an exact claim does not hold.
        """
        from .views.verdicts import verdict_table

        mine = claims.claims_of(self.record.section)
        forgotten = [claim.id for claim in mine if claim.id not in self._claimed]
        assert not forgotten, f"claims without a value: {', '.join(forgotten)}"
        encoded = {claim.id: records.encode(self._claimed[claim.id]) for claim in mine}
        if self.record.claims != encoded:
            self.record.claims = encoded
            self._store()
        outcomes = [
            (
                claim,
                self._claimed[claim.id],
                claims.evaluate(claim, self._claimed[claim.id], model_name=self.spec.name),
            )
            for claim in mine
        ]
        broken = [
            claim.id for claim, _, outcome in outcomes if claim.kind == "exact" and outcome.verdict != "holds"
        ]
        assert not broken, f"exact claims that do not hold: {', '.join(broken)}"
        return verdict_table(outcomes, self.words)

    def _store(self) -> None:
        if self.path is not None:
            records.write(self.path, self.record)


def open_section(slug: str, *, model: str, device: str, locale: str, **settings: object) -> Section:
    """Check every parameter, find the model, and open the section's record if it can be trusted.

    Raises:
        UserError: a parameter, the model or the device is not usable here.
    """
    locale = resolve_locale(locale)
    mode = one_of(MODE_VARIABLE, os.environ.get(MODE_VARIABLE, "auto"), MODES)
    plain = {name: check(name, value) for name, value in settings.items()}
    device = resolve_device(device)
    words = Words(locale)
    spec = resolve_model(model, device=device, words=words)
    run = describe_run(spec, device=device)
    key = key_of(run=run, settings=plain, notebook=_notebook_path(slug))
    path = _record_path(run["id"], slug)
    known = records.read(path) if path and mode != "fresh" else None
    record = known if known and known.key == key else records.Record(slug, key, run, plain)
    return Section(record, path=path, spec=spec, words=words)


def resolve_locale(name: str) -> str:
    """The language that `name` means: one of the book's, or "auto" for the one that the notebook is in.

    Raises:
        UserError: it is neither, or the environment names a language that the book has not.
    """
    if one_of("locale", name, (AUTO, *LOCALES)) != AUTO:
        return name
    return one_of(LOCALE_VARIABLE, os.environ.get(LOCALE_VARIABLE) or SOURCE_LOCALE, LOCALES)


def resolve_model(name: str, *, device: str, words: Words) -> ModelSpec:
    """The model that `name` means; what "auto" could not have is said in the page's language.

    Raises:
        UserError: there is no such model.
    """

    def fell_back(used: ModelSpec, wanted: ModelSpec) -> None:
        notice = words.gettext("The model hub cannot be reached: using {used} in place of {wanted}.")
        print(notice.format(used=used.title, wanted=wanted.title))

    return resolve(name, device=device, fell_back=fell_back)


def _record_path(run_id: str, slug: str) -> Path | None:
    root = os.environ.get(RECORDS_VARIABLE)
    return records.path_of(Path(root), run_id, slug) if root else None


def _notebook_path(slug: str) -> Path | None:
    folder = os.environ.get(NOTEBOOKS_VARIABLE)
    path = Path(folder, f"{slug}.ipynb") if folder else None
    return path if path and path.exists() else None
