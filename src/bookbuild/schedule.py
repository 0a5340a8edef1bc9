"""What must run and in what order: measurements one at a time, then replays side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

import nbformat

from cheap_inference import records

from .environment import kernel_environment
from .errors import BuildError
from .execute import Kernels, check_parameters, execute
from .files import digest_of, digest_of_tree
from .layout import Layout
from .progress import Reporter
from .stage import write_notebook
from .trust import trusted

PACKAGE = Path(records.__file__).parent
#: Replays load no model and mostly wait for their kernels to start.
REPLAYS_SIDE_BY_SIDE = 2


@dataclass(frozen=True)
class Run:
    """The model and the device that a build is for, as the notebooks' parameters name them.

    Attributes:
        id: `<model>-<device>`, the folder of its records.
    """

    id: str
    model: str
    device: str


class Schedule:
    """Executes what a build needs of the notebooks, and nothing that is still good."""

    def __init__(self, layout: Layout, run: Run, reporter: Reporter):
        self.layout = layout
        self.run = run
        self.reporter = reporter
        self.kernels = Kernels()
        self._package = digest_of_tree(PACKAGE)

    def check(self, slugs: Iterable[str], locale: str) -> None:
        """Check the parameters of every notebook before the first one runs.

        Raises:
            BuildError: a notebook does not take the build's parameters.
        """
        for slug in slugs:
            notebook = nbformat.read(self._source(slug, locale), as_version=4)
            check_parameters(slug, notebook, set(self._parameters(locale)))

    def measure(self, slugs: Iterable[str], locale: str, *, fresh: bool) -> None:
        """Execute notebooks that must measure, one after another: a second torch would spoil both."""
        for slug in slugs:
            self._in_threads([lambda slug=slug: self._execute(slug, locale, "fresh" if fresh else "auto")])

    def replay(self, slugs: Iterable[str], locales: Iterable[str]) -> None:
        """Execute every notebook whose outputs are not those of its text, its record and the package."""
        wanted = [(slug, locale) for locale in locales for slug in slugs if not self.is_current(slug, locale)]
        self._in_threads([lambda job=job: self._execute(*job, "replay") for job in wanted])

    def is_current(self, slug: str, locale: str) -> bool:
        """Whether the executed notebook can be used as it is."""
        stamp = self._stamp(slug, locale)
        return (
            stamp.exists()
            and self._target(slug, locale).exists()
            and stamp.read_text(encoding="utf-8") == self._digest(slug, locale)
        )

    def has_record(self, slug: str, locale: str) -> bool:
        """Whether the section can be replayed: a complete record, made by this code on this machine."""
        notebook = self._source(slug, locale)
        return trusted(
            self.record_path(slug), notebook=notebook, model=self.run.model, device=self.run.device
        )

    def record_path(self, slug: str) -> Path:
        """Where the section's record of this run lies."""
        return records.path_of(self.layout.records, self.run.id, slug)

    def _execute(self, slug: str, locale: str, mode: str) -> None:
        path = self._source(slug, locale)
        self._stamp(slug, locale).unlink(missing_ok=True)
        cells = sum(cell.cell_type == "code" for cell in nbformat.read(path, as_version=4).cells)
        verb = "Replaying" if mode == "replay" else "Measuring"
        # papermill adds one cell, the injected parameters.
        with self.reporter.step(f"{verb} {slug} ({locale})", total=cells + 1) as advance:
            notebook = execute(
                path,
                parameters=self._parameters(locale),
                environment=kernel_environment(records=self.layout.records, notebooks=path.parent, mode=mode),
                log=self.layout.build / "kernels.log",
                kernels=self.kernels,
                advance=advance,
            )
        if not self.record_path(slug).exists():
            raise BuildError(f"{slug}: its notebook kept no record in {self.record_path(slug).parent}.")
        write_notebook(self._target(slug, locale), notebook)
        # Written last: whatever an interruption leaves behind has no stamp and runs again.
        records.write_atomically(self._stamp(slug, locale), self._digest(slug, locale))

    def _digest(self, slug: str, locale: str) -> str:
        record = self.record_path(slug)
        return digest_of(
            self._source(slug, locale).read_bytes(),
            record.read_bytes() if record.exists() else b"",
            self._package,
            repr(self._parameters(locale)),
        )

    def _in_threads(self, jobs: list[Callable[[], None]]) -> None:
        """Run the jobs side by side; the first error, or Ctrl-C, ends them all."""
        pool = ThreadPoolExecutor(REPLAYS_SIDE_BY_SIDE)
        try:
            for future in as_completed([pool.submit(job) for job in jobs]):
                future.result()
        except BaseException:
            self.kernels.stop()
            raise
        finally:
            pool.shutdown(cancel_futures=True)

    def _parameters(self, locale: str) -> dict[str, object]:
        return {"model": self.run.model, "device": self.run.device, "locale": locale}

    def _source(self, slug: str, locale: str) -> Path:
        return self.layout.notebooks(locale) / f"{slug}.ipynb"

    def _target(self, slug: str, locale: str) -> Path:
        return self.layout.executed(locale) / f"{slug}.ipynb"

    def _stamp(self, slug: str, locale: str) -> Path:
        return self.layout.executed(locale) / f"{slug}.stamp"
