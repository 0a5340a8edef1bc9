"""The environment of a notebook's kernel."""

from __future__ import annotations

import os
from pathlib import Path

from cheap_inference.section import MODE_VARIABLE, NOTEBOOKS_VARIABLE, RECORDS_VARIABLE

#: Threads that sleep while idle (a neighbour that spins slows a measured step many times over), and no
#: profiler chatter or progress bars in the outputs.
QUIET = {
    "OMP_WAIT_POLICY": "passive",
    "KINETO_LOG_LEVEL": "99",
    "HF_HUB_DISABLE_PROGRESS_BARS": "1",
    "PYTHONUTF8": "1",
}


def kernel_environment(*, records: Path, notebooks: Path, mode: str) -> dict[str, str]:
    """All of a kernel's environment: where records are kept, which notebooks run, measure or replay."""
    own = {RECORDS_VARIABLE: str(records), NOTEBOOKS_VARIABLE: str(notebooks), MODE_VARIABLE: mode}
    return {**os.environ, **QUIET, **own}
