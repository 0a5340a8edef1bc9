"""Which device a run uses, found without torch where there is plainly no GPU."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from ..errors import UserError

DEVICES = ("auto", "cpu", "cuda")
# Linux driver, and the one that Windows shares with WSL.
DEVICE_NODES = ("/dev/nvidiactl", "/dev/nvidia0", "/dev/dxg")


def resolve_device(name: str) -> str:
    """Return "cpu" or "cuda" for "auto", "cpu" or "cuda".

    Raises UserError for any other value, and for "cuda" where torch sees no such device.
    """
    if name not in DEVICES:
        raise UserError(f"Unknown device {name!r}: choose one of {', '.join(DEVICES)}.")
    if name == "cpu" or (name == "auto" and not _gpu_plausible()):
        return "cpu"
    if _torch_sees_cuda():
        return "cuda"
    if name == "auto":
        return "cpu"
    raise UserError('No CUDA device is available here: use device "cpu" or "auto".')


def _gpu_plausible() -> bool:
    if os.environ.get("CUDA_VISIBLE_DEVICES", "0").strip() in ("", "-1"):
        return False
    return any(Path(node).exists() for node in DEVICE_NODES) or shutil.which("nvidia-smi") is not None


def _torch_sees_cuda() -> bool:
    try:
        import torch
    except ImportError:
        return False
    return torch.cuda.is_available()
