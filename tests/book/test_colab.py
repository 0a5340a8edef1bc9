"""Colab: where a build says it comes from, the first cell of its notebooks, and its links against the site."""

from __future__ import annotations

import re
import subprocess
import sys
import types
from importlib import metadata
from pathlib import Path
from urllib.parse import unquote, urlsplit

import nbformat
import pytest

from bookbuild.cli import main
from bookbuild.contents import read_contents
from bookbuild.errors import BuildError
from bookbuild.layout import Layout
from bookbuild.publication import COLAB, Publication, read_publication
from bookbuild.setup_cell import setup_cell
from bookbuild.stage import publish_notebooks, read_source, stage_notebooks
from cheap_inference.render.words import Words

COMMIT = "0123456789abcdef0123456789abcdef01234567"
KNOWN = Publication("https://github.com/owner/book", COMMIT, "gh-pages", "https://owner.github.io/book")
CI = {"GITHUB_SERVER_URL": "https://github.com", "GITHUB_REPOSITORY": "owner/book", "GITHUB_SHA": COMMIT}
BOOK = Layout(Path(__file__).parents[2])


def configured(project, **values: str) -> Path:
    """The root of the small book with lines of its configuration set: `url`, `branch`, `site`."""
    path = project.root / "_config.yml"
    text = path.read_text(encoding="utf-8")
    for name, value in values.items():
        text = re.sub(rf"^  {name}: .*$", f"  {name}: {value}", text, flags=re.MULTILINE)
    path.write_text(text, encoding="utf-8")
    return project.root


# --- where a build comes from ---


def test_nothing_is_known_of_a_checkout_outside_ci(project):
    publication = read_publication(project.root, {})
    assert publication == Publication(branch="gh-pages")
    assert publication.requirement is None
    assert publication.colab("notebooks/en/fake.ipynb") is None


def test_ci_says_where_it_runs(project):
    assert read_publication(project.root, CI) == KNOWN


def test_the_configuration_says_what_ci_does_not(project):
    root = configured(
        project, url="https://github.com/me/Me.github.io.git", site="https://x.org/book/", branch="site"
    )
    publication = read_publication(root, {"GITHUB_SHA": COMMIT})
    assert publication == Publication(
        "https://github.com/me/Me.github.io", COMMIT, "site", "https://x.org/book"
    )
    configured(project, site='""')
    assert read_publication(root, {}).site == "https://me.github.io"


def test_a_fork_is_its_own_repository_whatever_its_configuration_says(project):
    root = configured(project, url="https://github.com/upstream/book")
    assert read_publication(root, CI).repository == "https://github.com/owner/book"


def test_the_commit_is_that_of_the_checkout(project):
    git = ["git", "-C", str(project.root), "-c", "user.name=a", "-c", "user.email=b"]
    for command in (["init", "-q"], ["add", "-A"], ["commit", "-q", "--no-gpg-sign", "-m", "all"]):
        subprocess.run([*git, *command], check=True)
    head = subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True)
    assert read_publication(project.root, CI).commit == head.stdout.strip()


@pytest.mark.parametrize("setting", ["url", "site"])
def test_an_address_that_is_none_is_one_line(project, setting):
    root = configured(project, **{setting: "owner/book"})
    with pytest.raises(BuildError, match=f"_config.yml, .*{setting}: 'owner/book' is no address"):
        read_publication(root, {})


@pytest.mark.parametrize(
    ("repository", "commit"),
    [(None, COMMIT), ("https://github.com/owner/book", None), ("https://git.example.org/owner/book", COMMIT)],
)
def test_there_is_no_link_that_colab_could_not_open_and_run(repository, commit):
    assert Publication(repository, commit, "gh-pages").colab("notebooks/en/fake.ipynb") is None


# --- the first cell ---


@pytest.fixture
def pip(monkeypatch):
    """Calls of pip that the cell makes, which all end with `status`."""
    calls = types.SimpleNamespace(commands=[], status=0)

    def run(command, **_):
        calls.commands.append(command)
        return types.SimpleNamespace(returncode=calls.status, stderr="ERROR: no such commit")

    monkeypatch.setattr(subprocess, "run", run)
    return calls


@pytest.fixture
def in_colab(monkeypatch):
    """The module by which Colab is known."""
    for name in ("google", "google.colab"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))


@pytest.fixture
def without_package(monkeypatch):
    """An environment that has no such package."""
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)


def run_cell(monkeypatch, publication: Publication, locale: str = "pl") -> None:
    monkeypatch.setenv("CHEAP_INFERENCE_LOCALE", "")
    exec(setup_cell("fake", publication, Words(locale)).source, {})


@pytest.mark.usefixtures("in_colab", "without_package")
def test_in_colab_the_package_is_installed_at_the_commit_and_torch_and_numpy_stay(monkeypatch, pip):
    run_cell(monkeypatch, KNOWN)
    (command,) = pip.commands
    assert command[:4] == [sys.executable, "-m", "pip", "install"]
    assert "--quiet" in command
    assert f"git+https://github.com/owner/book@{COMMIT}" in command
    for name in ("torch", "numpy"):
        assert f"{name}=={metadata.version(name)}" in command


@pytest.mark.usefixtures("in_colab", "without_package")
def test_in_colab_a_failure_of_pip_is_shown(monkeypatch, pip):
    pip.status = 1
    with pytest.raises(RuntimeError, match="no such commit"):
        run_cell(monkeypatch, KNOWN)


@pytest.mark.parametrize("publication", [KNOWN, Publication()])
def test_elsewhere_nothing_is_installed(monkeypatch, pip, publication):
    run_cell(monkeypatch, publication)
    assert pip.commands == []


@pytest.mark.usefixtures("without_package")
def test_elsewhere_a_reader_without_the_package_is_told_what_to_do(monkeypatch, pip):
    with pytest.raises(ImportError, match=re.escape(f"pip install git+{KNOWN.repository}@{COMMIT}")):
        run_cell(monkeypatch, KNOWN)
    assert pip.commands == []


@pytest.mark.usefixtures("in_colab", "without_package")
def test_a_notebook_of_an_unknown_repository_says_so_even_in_colab(monkeypatch, pip):
    with pytest.raises(ImportError, match=r"does not know .* pip install path/to/checkout"):
        run_cell(monkeypatch, Publication(), "en")
    assert pip.commands == []


def test_the_first_cell_sets_the_notebooks_language(monkeypatch, pip):
    run_cell(monkeypatch, KNOWN, "hi")
    from cheap_inference.section import resolve_locale

    assert resolve_locale("auto") == "hi"
    assert resolve_locale("sv") == "sv"


# --- published notebooks ---


def published(project, contents, locale, folder, publication=KNOWN):
    stage_notebooks(project, contents, locale)
    publish_notebooks(project, contents, locale, folder / locale, publication)
    return nbformat.read(folder / locale / "fake.ipynb", as_version=4)


def code(notebook) -> list[str]:
    return [cell.source for cell in notebook.cells if cell.cell_type == "code"]


def test_all_code_but_the_first_cell_is_the_same_in_all_languages(project, contents, translate, tmp_path):
    translate(project, "pl", {"Counting is cheap": "Liczenie jest tanie"})
    english, polish = (published(project, contents, locale, tmp_path) for locale in ("en", "pl"))
    assert code(english)[1:] == code(polish)[1:] == code(read_source(project.sources / "fake.md"))
    assert polish.cells[1].source.startswith("# Liczenie jest tanie")
    assert [cell.cells[0].metadata.tags for cell in (english, polish)] == [["setup"]] * 2
    assert code(english)[0] != code(polish)[0]


# --- the site ---


class Links(list):
    """Web addresses that a text leads to."""

    def __init__(self, text: str, prefix: str):
        super().__init__(re.findall(rf'{re.escape(prefix)}[^")\s]*', text))


def site_file(site: Path, link: str) -> Path:
    """The file of the built site that a link into the published branch or to the published site leads to."""
    if link.startswith(COLAB):
        _, _, _, _, _, branch, *path = unquote(urlsplit(link).path).split("/")
        assert branch == KNOWN.branch
        return site.joinpath(*path)
    return site / unquote(urlsplit(link).path).removeprefix("/book/")


@pytest.fixture(scope="module")
def site(shared_project, translate):
    """The site of the small book in two languages, as CI publishes it."""
    translate(shared_project, "hi", {})
    with pytest.MonkeyPatch.context() as patch:
        for name, value in CI.items():
            patch.setenv(name, value)
        arguments = ["--model", "smollm2-135m", "--device", "cpu", "--locale", "en", "hi"]
        assert main(shared_project.root, arguments) == 0
    return shared_project.site


@pytest.mark.site
@pytest.mark.parametrize("locale", ["en", "hi"])
def test_a_section_opens_its_own_notebook_in_its_language(site, locale):
    text = (site / locale / "fake.html").read_text(encoding="utf-8")
    (link,) = Links(text, COLAB)
    assert link == f"{COLAB}/owner/book/blob/gh-pages/notebooks/{locale}/fake.ipynb"
    assert site_file(site, link) == site / "notebooks" / locale / "fake.ipynb"
    assert site_file(site, link).is_file()


@pytest.mark.site
@pytest.mark.parametrize(("width", "short"), [(320, True), (390, True), (1280, False)])
def test_the_button_fits_and_says_what_it_does(site, browser, width, short):
    page = browser.new_page(viewport={"width": width, "height": 600})
    page.goto((site / "hi/fake.html").as_uri())
    name = Words("hi").gettext("Open in Colab")
    button = page.get_by_role("link", name=name, exact=True)
    assert button.inner_text().strip() == ("Colab" if short else name)
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    page.close()


@pytest.mark.site
def test_no_label_of_the_repository_stays_english(site):
    text = (site / "hi/fake.html").read_text(encoding="utf-8")
    assert 'title="Source repository (hi)"' in text


@pytest.mark.site
def test_only_sections_have_the_button(site):
    assert Links((site / "en/index.html").read_text(encoding="utf-8"), COLAB) == []


@pytest.mark.site
@pytest.mark.parametrize("locale", ["en", "hi"])
def test_links_of_a_published_notebook_lead_to_pages_and_anchors_of_the_site(site, locale):
    text = (site / "notebooks" / locale / "fake.ipynb").read_text(encoding="utf-8")
    links = Links(text, KNOWN.site)
    assert links == [f"{KNOWN.site}/{locale}/glossary.html#words"]
    page = site_file(site, links[0])
    assert page == site / locale / "glossary.html"
    assert 'id="words"' in page.read_text(encoding="utf-8")


@pytest.mark.site
def test_without_a_repository_there_is_no_button(project, monkeypatch):
    for name in CI:
        monkeypatch.delenv(name, raising=False)
    assert main(project.root, ["--model", "smollm2-135m", "--device", "cpu", "--locale", "en"]) == 0
    text = (project.site / "en/fake.html").read_text(encoding="utf-8")
    assert "olab" not in re.sub(r"<(style|script).*?</\1>", "", text, flags=re.DOTALL)
    cell = nbformat.read(project.site / "notebooks/en/fake.ipynb", as_version=4).cells[0]
    assert "does not know the address" in cell.source


@pytest.mark.site
def test_every_colab_link_of_the_book_leads_to_a_published_notebook():
    pages = sorted(BOOK.site.glob("*/*.html"))
    assert pages
    links = {link: page for page in pages for link in Links(page.read_text(encoding="utf-8"), COLAB)}
    assert [page.name for link, page in links.items() if not site_file(BOOK.site, link).is_file()] == []
    if read_publication(BOOK.root).requirement:
        locales = {page.parent.name for page in pages}
        assert len(links) == len(locales) * len(read_contents(BOOK.root).sections)


@pytest.mark.site
def test_every_published_notebook_of_the_book_begins_with_the_setup_cell():
    notebooks = sorted(BOOK.site.glob("notebooks/*/*.ipynb"))
    assert notebooks
    for path in notebooks:
        first = nbformat.read(path, as_version=4).cells[0]
        assert first.metadata.tags == ["setup"], path
        assert f'= "{path.parent.name}"' in first.source
