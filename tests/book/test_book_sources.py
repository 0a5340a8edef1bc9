"""From `notebooks/*.md` to notebooks without outputs, and the links between pages."""

from __future__ import annotations

import nbformat
import pytest

from bookbuild.contents import read_contents
from bookbuild.errors import BuildError
from bookbuild.files import digest_of, digest_of_tree, emptied
from bookbuild.links import linked_pages, relink
from bookbuild.publication import Publication
from bookbuild.stage import publish_notebooks, read_source, stage_notebooks


def test_contents_tell_sections_from_pages(contents):
    assert contents.sections == ("fake",)
    assert contents.pages == ("index", "glossary")


def test_a_part_of_the_contents_remembers_what_it_left_out(contents):
    part = contents.only(())
    assert part.sections == ()
    assert part.left_out == ("fake",)
    assert part.toc["parts"] == [{"chapters": [{"file": "glossary"}]}]
    assert contents.toc["parts"][0] == {"chapters": [{"file": "fake"}]}, "the whole is left as it was"


def test_a_staged_notebook_has_a_kernel_its_tags_and_no_outputs(project):
    notebook = read_source(project.sources / "fake.md")
    assert notebook.metadata.kernelspec.name == "python3"
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.metadata.get("tags", []) for cell in code] == [
        ["parameters"],
        [],
        [],
        ["lead", "nbval-ignore-output"],
        [],
    ]
    assert not any(cell.outputs for cell in code)


def test_staging_twice_gives_the_same_bytes_and_drops_what_is_gone(project, contents):
    path = project.notebooks("en") / "fake.ipynb"
    stage_notebooks(project, contents, "en")
    first = path.read_bytes()
    (path.parent / "gone.ipynb").write_text("{}", encoding="utf-8")
    stage_notebooks(project, contents, "en")
    assert path.read_bytes() == first
    assert [file.name for file in path.parent.iterdir()] == ["fake.ipynb"]


def test_a_published_notebook_links_to_pages_of_its_language(project, contents, tmp_path):
    stage_notebooks(project, contents, "pl")
    for number, (site, link) in enumerate(
        [(None, "../../pl/glossary.html#words"), ("https://x.org", "https://x.org/pl/glossary.html#words")]
    ):
        folder = tmp_path / str(number)
        publish_notebooks(project, contents, "pl", folder, Publication(site=site))
        heading = nbformat.read(folder / "fake.ipynb", as_version=4).cells[1]
        assert f"[the words]({link})" in heading.source


@pytest.mark.parametrize(
    ("markdown", "expected"),
    [
        ("[a](kv-cache.md)", "[a](<kv-cache>)"),
        ("[a](../notebooks/kv-cache.md#x)", "[a](<kv-cache>#x)"),
        ("[a](../book/index.md)", "[a](<index>)"),
        ("see [a](gone.md).", "see a."),
        ("[a](https://example.org/kv-cache.md)", "[a](https://example.org/kv-cache.md)"),
        ("[a](data/kv-cache.csv)", "[a](data/kv-cache.csv)"),
    ],
)
def test_only_links_to_pages_are_rewritten(markdown, expected):
    assert relink(markdown, lambda page: None if page == "gone" else f"<{page}>") == expected


def test_linked_pages_are_found():
    assert linked_pages("[a](x.md), [b](../book/y.md#z), [c](https://z.md)") == {"x", "y"}


def test_digests_tell_borders_names_and_bytes_apart(tmp_path):
    assert digest_of("ab", "c") != digest_of("a", "bc")
    folder = emptied(tmp_path / "tree")
    (folder / "a").write_text("1", encoding="utf-8")
    first = digest_of_tree(folder)
    (folder / "a").rename(folder / "b")
    assert digest_of_tree(folder) != first


def test_every_section_of_the_book_is_in_its_contents(repository):
    sources = {path.stem for path in repository.sources.glob("*.md")}
    assert set(read_contents(repository.root).sections) == sources


def test_a_page_without_a_file_is_named(project):
    (project.pages / "glossary.md").unlink()
    with pytest.raises(BuildError) as failure:
        read_contents(project.root)
    assert (
        str(failure.value) == "_toc.yml names glossary, but neither notebooks/ nor book/ has a glossary.md."
    )
