"""Publishing to a repository that lies in a folder beside."""

from __future__ import annotations

import subprocess

import pytest

from bookbuild.publish import AUTHOR, _credentials, publish_history, publish_site


def git(folder, *arguments):
    done = subprocess.run(["git", *arguments], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture
def remote(tmp_path):
    """A bare repository whose branch main has one file."""
    bare, work = tmp_path / "remote.git", tmp_path / "work"
    work.mkdir()
    git(tmp_path, "init", "--quiet", "--bare", "--initial-branch", "main", str(bare))
    git(work, "init", "--quiet", "--initial-branch", "main")
    (work / "README.md").write_text("The book.\n", encoding="utf-8")
    git(work, "add", "README.md")
    git(work, *AUTHOR, "commit", "--quiet", "--message", "First")
    git(work, "push", "--quiet", str(bare), "main")
    return bare


@pytest.fixture
def site(tmp_path):
    folder = tmp_path / "site"
    (folder / "_shared").mkdir(parents=True)
    (folder / "index.html").write_text("one", encoding="utf-8")
    (folder / "_shared" / "x.js").write_text("1", encoding="utf-8")
    (folder / ".gitignore").write_text("*.js\n", encoding="utf-8")
    return folder


def test_a_site_replaces_the_one_before_in_a_single_commit(site, remote):
    publish_site(site, str(remote), "gh-pages")
    (site / "index.html").write_text("two", encoding="utf-8")
    publish_site(site, str(remote), "gh-pages")
    assert git(remote, "show", "gh-pages:index.html") == "two"
    assert git(remote, "rev-list", "--count", "gh-pages") == "1"
    files = git(remote, "ls-tree", "-r", "--name-only", "gh-pages").splitlines()
    assert set(files) == {".gitignore", ".nojekyll", "_shared/x.js", "index.html"}
    assert not (site / ".git").exists(), "the site itself is left as it was"
    assert git(remote, "rev-list", "--count", "main") == "1"


def test_an_empty_site_is_not_published(tmp_path, remote):
    with pytest.raises(FileNotFoundError, match="no built site"):
        publish_site(tmp_path, str(remote), "gh-pages")
    assert git(remote, "branch", "--list", "gh-pages") == ""


def test_history_is_added_to_what_the_branch_has_by_now(tmp_path, remote):
    mine = tmp_path / "history" / "nights.jsonl"
    mine.parent.mkdir()
    mine.write_text("1\n2\n", encoding="utf-8")
    assert publish_history(mine, str(remote), "main")
    mine.write_text("1\n3\n", encoding="utf-8")  # made from a checkout that knew nothing of 2
    assert publish_history(mine, str(remote), "main")
    assert not publish_history(mine, str(remote), "main"), "nothing new, no commit"
    assert git(remote, "show", "main:history/nights.jsonl").split() == ["1", "2", "3"]
    assert git(remote, "show", "main:README.md") == "The book."
    assert git(remote, "rev-list", "--count", "main") == "3"


def test_the_token_goes_to_its_server_alone_and_into_no_arguments(monkeypatch):
    monkeypatch.delenv("GITHUB_TOKEN", raising=False)
    assert _credentials() == {}
    monkeypatch.setenv("GITHUB_TOKEN", "secret")
    monkeypatch.setenv("GITHUB_SERVER_URL", "https://example.org")
    assert _credentials()["GIT_CONFIG_KEY_0"] == "http.https://example.org/.extraheader"
