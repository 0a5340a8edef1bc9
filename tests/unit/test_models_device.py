"""Which device is used, found without torch where that is possible."""

import sys
from types import SimpleNamespace

import pytest

from cheap_inference.errors import UserError
from cheap_inference.models import device
from cheap_inference.models.device import resolve_device


@pytest.fixture
def machine(monkeypatch):
    """Pretend: whether there are traces of a driver, and what torch says (None: torch not installed)."""

    def pretend(*, driver, torch_cuda):
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
        monkeypatch.setattr(device, "DEVICE_NODES", ("/",) if driver else ("/no/such/node",))
        monkeypatch.setattr(device.shutil, "which", lambda name: None)
        fake = (
            None
            if torch_cuda is None
            else SimpleNamespace(cuda=SimpleNamespace(is_available=lambda: torch_cuda))
        )
        monkeypatch.setitem(sys.modules, "torch", fake)

    return pretend


@pytest.mark.parametrize(
    ("asked", "driver", "torch_cuda", "found"),
    [
        ("cpu", True, True, "cpu"),
        ("auto", True, True, "cuda"),
        ("auto", True, False, "cpu"),
        ("auto", True, None, "cpu"),
        ("auto", False, True, "cpu"),
        ("cuda", True, True, "cuda"),
        ("cuda", False, True, "cuda"),
    ],
)
def test_device_found(asked, driver, torch_cuda, found, machine):
    machine(driver=driver, torch_cuda=torch_cuda)
    assert resolve_device(asked) == found


def test_hidden_gpus_are_no_gpus(machine, monkeypatch):
    machine(driver=True, torch_cuda=True)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert resolve_device("auto") == "cpu"


def test_auto_without_a_driver_does_not_import_torch(machine, monkeypatch):
    machine(driver=False, torch_cuda=None)
    monkeypatch.setattr(device, "_torch_sees_cuda", lambda: pytest.fail("torch was asked"))
    assert resolve_device("auto") == "cpu"


@pytest.mark.parametrize("torch_cuda", [False, None])
def test_cuda_where_there_is_none_is_refused(torch_cuda, machine):
    machine(driver=True, torch_cuda=torch_cuda)
    with pytest.raises(UserError, match="No CUDA device"):
        resolve_device("cuda")


@pytest.mark.parametrize("name", ["", "gpu", "CUDA", "cuda:0", "mps", None, 0])
def test_an_unknown_device_is_refused(name):
    with pytest.raises(UserError, match=r"Unknown device .*auto, cpu, cuda"):
        resolve_device(name)
