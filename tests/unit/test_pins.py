"""The pins: one lock for every Python, and licences that somebody has looked at."""

from __future__ import annotations

import re
from email.message import Message

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from bookbuild.licences import licence_of, permitted, pinned, unknown_licences
from bookbuild.lock import HEADER, tidied


def lines(path):
    """Requirements of a file, without comments."""
    found = (re.sub(r"(^|\s)#.*", "", line).strip() for line in path.read_text(encoding="utf-8").splitlines())
    return [Requirement(line) for line in found if line]


@pytest.fixture
def root(request):
    return request.config.rootpath


def test_every_direct_dependency_is_pinned(root):
    locked = {canonicalize_name(pin.name) for pin in lines(root / "requirements.txt")}
    wanted = {canonicalize_name(direct.name) for direct in lines(root / "requirements.in")}
    project = re.search(
        r"^dependencies = \[(.*?)^\]", (root / "pyproject.toml").read_text(encoding="utf-8"), re.M | re.S
    )
    wanted |= {canonicalize_name(Requirement(text).name) for text in re.findall(r'"([^"]+)"', project[1])}
    assert sorted(wanted - locked) == []


def test_pins_are_exact(root):
    for pin in lines(root / "requirements.txt"):
        assert re.fullmatch(r"==[\w.]+", str(pin.specifier)), pin


def test_pins_of_cuda_are_left_to_torch():
    text = "# by uv\naiohttp==3 ; python_full_version == '3.12.*'\nnvidia-nccl-cu13==2\ncuda-bindings==1\ntriton==3\n"
    assert tidied(text) == f"{HEADER}aiohttp==3 ; python_full_version == '3.12.*'\n"


def test_every_licence_was_looked_at(root):
    assert unknown_licences(pinned(root / "requirements.txt")) == []


@pytest.mark.parametrize(
    ("licence", "known"),
    [
        ("MIT", True),
        ("Apache-2.0 WITH LLVM-exception AND (BSD-2-Clause OR GPL-2.0-only)", True),
        ("(MIT OR GPL-2.0-only) AND GPL-3.0-only", False),
        ("GPL-3.0-or-later OR MIT", True),
        ("GPL-3.0-or-later", False),
        ("", False),
    ],
)
def test_a_licence_is_known_or_not(licence, known):
    assert permitted(licence) is known


def test_a_package_says_its_licence_in_one_of_three_ways():
    def package(**fields):
        message = Message()
        for name, value in fields.items():
            message[name.replace("_", "-")] = value
        return message

    assert licence_of(package(License_Expression="MIT", License="other")) == "MIT"
    assert (
        licence_of(package(Classifier="License :: OSI Approved :: MIT License", License="long text")) == "MIT"
    )
    assert licence_of(package(License="Apache 2.0\nmore")) == "Apache-2.0"
    assert licence_of(package()) == ""
