"""Bad arguments: one line and status 2, before anything long starts."""

from __future__ import annotations

import subprocess
import sys

import pytest

from bookbuild.cli import checked, main, parameter_for, parsed
from bookbuild.languages import own_name, translated
from cheap_inference.models import KNOWN_MODELS, ModelSpec


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--locale", "de"], "--locale must be one of en, pl, hi, sv, fr, all, not 'de'"),
        (["--locale", "en", "de"], "not 'de'"),
        (["--locale"], "--locale"),
        (["--device", "tpu"], "--device must be one of auto, cpu, cuda, not 'tpu'"),
        (["--section", "nowhere"], "--section must be one of fake, not 'nowhere'"),
        (["--section", "index"], "not 'index'"),
        (["--section"], "--section"),
        (["--model", ""], "Not the name of a model"),
        (["--model", "./missing"], "No such folder or file: ./missing"),
        (["--model", "no such model"], "Unknown model 'no such model'"),
        (["--fres"], "--fres"),
        (["kv-cache"], "kv-cache"),
        (["--unknown"], "--unknown"),
    ],
)
def test_a_bad_value_is_one_line_and_nothing_starts(project, capsys, arguments, words):
    assert main(project.root, ["--device", "cpu", *arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert words in err
    assert err.count("\n") == 1
    assert not project.build.exists()


def test_a_request_holds_what_was_asked_for(project):
    request = checked(
        project, parsed(["--model", "smollm2-135m", "--device", "cpu", "--locale", "pl", "en", "pl"])
    )
    assert request.locales == ("pl", "en")
    assert request.run.id == "smollm2-135m-cpu"
    assert request.contents.sections == ("fake",)
    assert not request.fresh


def test_all_languages_are_those_with_a_catalogue(project):
    assert translated(project) == ("en",)
    (project.translations / "sv").mkdir(parents=True)
    assert checked(project, parsed(["--device", "cpu"])).locales == ("en", "sv")


def test_languages_are_named_in_themselves():
    assert [own_name(code) for code in ("en", "pl", "hi", "sv", "fr")] == [
        "English",
        "Polski",
        "हिन्दी",
        "Svenska",
        "Français",
    ]


@pytest.mark.parametrize(
    ("spec", "parameter"),
    [
        (KNOWN_MODELS["smollm2-135m"], "smollm2-135m"),
        (ModelSpec("x-1", "x", "gguf", "/models/x.gguf", None, "1", None), "/models/x.gguf"),
        (ModelSpec("o--x-1", "x", "hub", "o/x", "abc", None, None), "o/x@abc"),
    ],
)
def test_a_notebook_is_told_of_the_very_model(spec, parameter):
    assert parameter_for(spec) == parameter


def test_the_command_itself_refuses_in_one_line(repository):
    command = [sys.executable, str(repository.root / "scripts" / "build.py"), "--locale", "xx"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={"LC_ALL": "C"})
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
