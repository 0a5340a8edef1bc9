"""The workflows: valid, without findings, pinned, and calling commands that exist."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from fnmatch import fnmatch
from pathlib import Path

import pytest
import yaml

from bookbuild import colab_check
from bookbuild.contents import read_contents
from bookbuild.layout import Layout

BOOK = Layout(Path(__file__).parents[2])
FOLDER = BOOK.root / ".github" / "workflows"
WORKFLOWS = sorted(FOLDER.glob("*.yml"))
STEP_USES = re.compile(r"[\w.-]+/[\w./-]+@[0-9a-f]{40}")


def loaded(path):
    """A workflow as data; YAML reads the key `on` as true."""
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def jobs():
    return [(path.stem, name, job) for path in WORKFLOWS for name, job in loaded(path)["jobs"].items()]


def steps():
    return [(workflow, step) for workflow, _, job in jobs() for step in job.get("steps", [])]


def step_that_runs(command):
    """The one shell command of the workflows that runs a script so."""
    (found,) = [step["run"] for _, step in steps() if f"scripts/{command} " in step.get("run", "")]
    return found


def tool(name):
    """A command of this environment."""
    return str(Path(sys.executable).with_name(name))


def test_they_follow_the_schema():
    command = [tool("check-jsonschema"), "--builtin-schema", "vendor.github-workflows", *map(str, WORKFLOWS)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_scanner_finds_nothing_above_informational():
    command = [tool("zizmor"), "--offline", "--min-severity", "low", str(FOLDER)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_scanner_would_find_something(tmp_path):
    """The control: a tag in place of a commit is a finding."""
    text = (FOLDER / "pull-request.yml").read_text(encoding="utf-8")
    text = re.sub(r"(actions/checkout)@\w+ # \S+", r"\1@v6", text)
    (tmp_path / "pull-request.yml").write_text(text, encoding="utf-8")
    command = [tool("zizmor"), "--offline", "--min-severity", "low", str(tmp_path)]
    assert subprocess.run(command, capture_output=True, check=False).returncode != 0


def test_every_action_is_pinned_by_commit_and_in_one_version():
    used = {}
    for path in WORKFLOWS:
        for reference, version in re.findall(r"uses: ([^$\s]\S+)(.*)", path.read_text(encoding="utf-8")):
            assert STEP_USES.fullmatch(reference), reference
            assert re.fullmatch(r" # v\d+\.\d+\.\d+", version), f"{reference} does not say its version"
            used.setdefault(reference.partition("@")[0], set()).add(reference)
    assert used
    assert [name for name, references in used.items() if len(references) > 1] == []


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_nothing_is_permitted_that_is_not_needed(path):
    workflow = loaded(path)
    assert workflow["permissions"] == {}
    writing = {
        name: kinds
        for name, job in workflow["jobs"].items()
        if (kinds := {key for key, level in job["permissions"].items() if level == "write"})
    }
    assert writing == ({"publish": {"contents"}, "issue": {"issues"}} if path.stem == "nightly" else {})


def test_every_job_has_a_time_limit():
    for workflow, name, job in jobs():
        limited = job.get("with", {}).get("minutes") if "uses" in job else job.get("timeout-minutes")
        assert limited, f"{workflow}: {name}"


def test_runs_never_overlap():
    for path in WORKFLOWS:
        on = loaded(path)[True]
        assert "concurrency" in loaded(path) or set(on) == {"workflow_call"}


def test_the_pull_request_asks_for_no_secret_and_no_measurement():
    text = (FOLDER / "pull-request.yml").read_text(encoding="utf-8")
    assert "secrets" not in re.sub(r"^#.*", "", text, flags=re.MULTILINE)
    assert [step["run"].split()[:2] for _, step in steps() if step.get("name") == "make check"] == [
        ["make", "check"]
    ]


def test_no_expression_reaches_a_shell():
    for workflow, step in steps():
        assert "${{" not in step.get("run", ""), f"{workflow}: {step.get('name')}"


def test_the_commands_are_those_of_the_makefile_and_of_the_scripts():
    targets = set(
        re.findall(r"^([\w-]+):", (BOOK.root / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    )
    commands = [step["run"] for _, step in steps() if "run" in step]
    for command in commands:
        made, script = re.match(r"make (\S+)", command), re.search(r"scripts/\w+\.py", command)
        assert made or script, command
        assert not made or made[1] in targets
        assert not script or (BOOK.root / script[0]).is_file()
    assert len(commands) >= 6


@pytest.mark.parametrize(
    "arguments",
    [
        "nightly.py run",
        "colab_check.py",
        "after_night.py issue",
        "after_night.py site",
        "after_night.py history",
    ],
)
def test_a_command_knows_the_options_that_the_workflow_gives_it(arguments):
    command = step_that_runs(arguments)
    script, *verb = arguments.split()
    done = subprocess.run(
        [sys.executable, f"scripts/{script}", *verb, "--help"],
        capture_output=True,
        text=True,
        check=True,
        cwd=BOOK.root,
    )
    given = set(re.findall(r"(?<!\S)--[a-z]+", command))
    assert given
    assert given <= set(re.findall(r"--[a-z]+", done.stdout))


def test_colab_is_checked_in_every_section_in_english_and_in_hindi():
    arguments = shlex.split(step_that_runs("colab_check.py").partition("colab_check.py")[2])
    sections, locales = colab_check._checked(BOOK, arguments)
    assert sections == read_contents(BOOK.root).sections
    assert locales == ("en", "hi")


def test_the_issue_tells_of_every_other_job_and_has_every_report():
    night = loaded(FOLDER / "nightly.yml")["jobs"]
    assert set(night["issue"]["needs"]) == set(night) - {"issue"}
    names = [step["with"]["name"] for _, step in steps() if step.get("name") == "Report"]
    (pattern,) = [
        step["with"]["pattern"] for step in night["issue"]["steps"] if "pattern" in step.get("with", {})
    ]
    assert len(names) == 2
    assert all(fnmatch(name, pattern) for name in names)


def test_the_branches_are_those_of_the_configuration():
    config = yaml.safe_load((BOOK.root / "_config.yml").read_text(encoding="utf-8"))
    publishing = next(step["run"] for _, step in steps() if "after_night.py site" in step.get("run", ""))
    assert publishing.endswith(f"--branch {config['publication']['branch']}")


def test_the_night_covers_every_supported_python():
    declared = (FOLDER / "pull-request.yml").read_text(encoding="utf-8")
    supported = set(re.findall(r'"(3\.\d+)"', declared))
    nightly = set(re.findall(r'python: "(3\.\d+)"', (FOLDER / "nightly.yml").read_text(encoding="utf-8")))
    assert nightly == supported
