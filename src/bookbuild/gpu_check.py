"""The whole book on a machine with a GPU and without a network: what came of every section, and the records."""

from __future__ import annotations

import json
import shutil
import tempfile
import time
import zipfile
from dataclasses import dataclass
from pathlib import Path

from cheap_inference.models import KNOWN_MODELS
from cheap_inference.models.convert import converted
from cheap_inference.models.local import gguf_digest
from cheap_inference.settings import SOURCE_LOCALE

from .build import Request
from .gpu_report import Outcome, report_text
from .layout import Layout
from .progress import Reporter
from .section_run import measure_alone
from .stage import stage_notebooks

#: Nothing is started with less than this left: a kernel and a model need it before they measure anything.
LEAST_SECONDS = 10.0


@dataclass(frozen=True)
class CheckLayout(Layout):
    """A checkout whose outputs lie elsewhere: a check leaves the checkout's own records alone."""

    work: Path

    @property
    def build(self) -> Path:
        """The folder that the check writes to."""
        return self.work


def known_name(model: str) -> str:
    """The name of a model that the book knows, where `model` is the GGUF file of one; else `model` itself.

    The file is converted into the cache, where every section then finds it under that name.
    """
    path = Path(model)
    if not path.is_file():
        return model
    digest = gguf_digest(path)
    for spec in KNOWN_MODELS.values():
        if spec.sha256 == digest:
            converted(digest, lambda _: path.resolve())
            return spec.name
    return model


def run_check(
    root: Path, request: Request, reporter: Reporter, *, out: Path, seconds: float
) -> list[Outcome]:
    """Measure every section, one after another, and write `report.md`, `records.zip` and `kernels.log`.

    Args:
        seconds: time for all of it; sections that it does not reach are told of.
    """
    out.mkdir(parents=True, exist_ok=True)
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        layout = CheckLayout(root, Path(folder))
        stage_notebooks(layout, request.contents, SOURCE_LOCALE)
        outcomes = []
        for slug in request.contents.sections:
            left = seconds - (time.monotonic() - started)
            outcomes.append(_measured(layout, request, slug, reporter, left))
        good = [outcome.section for outcome in outcomes if not outcome.problem]
        records = _read(layout.records / request.run.id, good)
        text = report_text(outcomes, records, run_id=request.run.id, seconds=time.monotonic() - started)
        (out / "report.md").write_text(text, encoding="utf-8")
        _pack(out / "records.zip", records, request.run.id)
        log = layout.build / "kernels.log"
        if log.exists():
            shutil.copyfile(log, out / log.name)
    return outcomes


def _measured(layout: Layout, request: Request, slug: str, reporter: Reporter, left: float) -> Outcome:
    if left < LEAST_SECONDS:
        return Outcome(slug, 0.0, "Not started: the time was up.")
    started = time.monotonic()
    problem = measure_alone(layout, request.run, slug, SOURCE_LOCALE, reporter, limit=left)
    return Outcome(slug, time.monotonic() - started, problem)


def _read(folder: Path, slugs: list[str]) -> dict[str, dict]:
    return {slug: json.loads((folder / f"{slug}.json").read_text(encoding="utf-8")) for slug in slugs}


def _pack(path: Path, records: dict[str, dict], run_id: str) -> None:
    """The records as they are to lie under `records/`."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for slug, record in records.items():
            text = json.dumps(record, ensure_ascii=False, indent=1)
            archive.writestr(f"{run_id}/{slug}.json", f"{text}\n")
