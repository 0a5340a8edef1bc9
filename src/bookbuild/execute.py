"""Running one notebook in its own kernel, through papermill, with its parameters checked first."""

from __future__ import annotations

import ast
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import papermill
from nbclient.exceptions import DeadKernelError
from nbformat import NotebookNode
from papermill.clientwrap import PapermillNotebookClient
from papermill.engines import NBClientEngine, NotebookExecutionManager, papermill_engines
from papermill.exceptions import PapermillExecutionError

from cheap_inference.errors import UserError

from .errors import BuildError, Interrupted
from .outputs import first_line, tagged

ENGINE = "bookbuild"


class Kernels:
    """The kernels that are running now, so that an interruption can end them."""

    def __init__(self) -> None:
        self._clients: set[PapermillNotebookClient] = set()
        self._lock = threading.Lock()
        self.stopped = False

    def add(self, client: PapermillNotebookClient) -> None:
        """Remember a client that is about to start its kernel."""
        with self._lock:
            self.check()
            self._clients.add(client)

    def check(self) -> None:
        """Raise `Interrupted` once the kernels were stopped."""
        if self.stopped:
            raise Interrupted

    def discard(self, client: PapermillNotebookClient) -> None:
        """Forget a client whose kernel has ended."""
        with self._lock:
            self._clients.discard(client)

    def stop(self) -> None:
        """End every kernel and let no other start."""
        with self._lock:
            self.stopped = True
            for client in self._clients:
                process = getattr(getattr(client.km, "provisioner", None), "process", None)
                if process is not None:
                    with suppress(ProcessLookupError):
                        process.kill()


class Engine(NBClientEngine):
    """papermill's own engine with the kernel's environment, its folder, and a call before each cell."""

    @classmethod
    def execute_managed_notebook(
        cls, nb_man: NotebookExecutionManager, kernel_name: str, **options: object
    ) -> NotebookNode:
        kernels, advance = options["kernels"], options["advance"]
        client = PapermillNotebookClient(
            nb_man,
            kernel_name=kernel_name,
            timeout=None,
            startup_timeout=120,
            resources={"metadata": {"path": str(options["folder"])}},
        )
        # A kernel that was starting when the others were stopped is found at its first cell.
        client.on_cell_start = lambda **_: kernels.check()
        client.on_cell_executed = lambda **_: advance()
        kernels.add(client)
        try:
            with open(options["log"], "a", encoding="utf-8") as log:
                return client.execute(env=options["environment"], stderr=log)
        finally:
            kernels.discard(client)


papermill_engines.register(ENGINE, Engine)


def execute(
    path: Path,
    *,
    parameters: dict[str, object],
    environment: dict[str, str],
    log: Path,
    kernels: Kernels,
    advance: Callable[[], None],
) -> NotebookNode:
    """Execute the notebook at `path` and return it with its outputs; nothing else is written than the log.

    Args:
        log: file for what the kernel itself says, outside any cell.

    Raises:
        UserError: the notebook refused its parameters, the model or the machine.
        BuildError: a cell failed.
        Interrupted: the kernels were stopped meanwhile.
    """
    try:
        return papermill.execute_notebook(
            path,
            None,
            parameters=parameters,
            engine_name=ENGINE,
            progress_bar=False,
            folder=path.parent,
            environment=environment,
            log=log,
            kernels=kernels,
            advance=advance,
        )
    except PapermillExecutionError as error:
        raise _explained(path.stem, error) from error
    except DeadKernelError as error:
        if kernels.stopped:
            raise Interrupted from error
        raise BuildError(f"{path.stem}: its kernel died, out of memory perhaps (see {log}).") from error


def _explained(slug: str, error: PapermillExecutionError) -> Exception:
    """A failed cell as one line; a `UserError` speaks for itself."""
    message = next((line.strip() for line in error.evalue.splitlines() if line.strip()), "")
    if error.ename == UserError.__name__:
        return UserError(message)
    where = f"{slug}: the cell {first_line(error.source)} failed"
    return BuildError(f"{where}: {error.ename}: {message}".rstrip(": "))


def check_parameters(slug: str, notebook: NotebookNode, names: set[str]) -> None:
    """Make sure that a notebook takes these parameters: papermill itself would only warn.

    Raises:
        BuildError: no cell is tagged `parameters`, or it cannot be read, or does not set one of the names.
    """
    cells = list(tagged(notebook, "parameters"))
    if len(cells) != 1:
        raise BuildError(f"{slug}: one cell must be tagged `parameters`, not {len(cells)}.")
    try:
        known = set(default_parameters(cells[0].source))
    except (SyntaxError, ValueError) as error:
        reason = str(error).partition(": <")[0]
        raise BuildError(f"{slug}: its parameters cell must set plain values only: {reason}.") from error
    unknown = sorted(names - known)
    if unknown:
        raise BuildError(f"{slug}: its parameters cell does not set {', '.join(unknown)}.")


def default_parameters(source: str) -> dict[str, object]:
    """The names that a parameters cell sets, with their values: plain literals only."""
    assignments = [node for node in ast.parse(source).body if isinstance(node, ast.Assign)]
    return {node.targets[0].id: ast.literal_eval(node.value) for node in assignments}
