"""L8: the scan reads exactly the files in which Airflow looks for DAGs, measured against Airflow's own list."""

import zipfile

import pytest

from airflow_provider_rmq import compat
from airflow_provider_rmq.watcher.dagfiles.file_reader import FileReader
from airflow_provider_rmq.watcher.dagfiles.scanner import DagFolderScanner

HEAD = "from airflow.decorators import dag\n"


@pytest.fixture
def folder(tmp_path):
    """A folder with a declaration in every file, whose DAG id is the file's path."""
    for name in (
        "plain.py",
        "ignored_by_root.py",
        "team/a.py",
        "team/ignored_by_root.py",
        "team/skipped/b.py",
        "team/deep/keep.py",
        "team/deep/drop.py",
        "other/skipped/c.py",
        ".hidden/d.py",
        "__pycache__/e.py",
        "notes.txt",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(declaring(name))
    with zipfile.ZipFile(tmp_path / "zipped.zip", "w") as archive:
        archive.writestr("f.py", declaring("zipped.zip"))
    with zipfile.ZipFile(tmp_path / "archive_without_suffix", "w") as archive:
        archive.writestr("g.py", declaring("archive_without_suffix"))
    return tmp_path


def declaring(name, head=HEAD):
    return f'{head}@rmq_trigger(queue="q")\n@dag(dag_id="{name}")\ndef f(): ...\n'


def read_by_us(folder):
    listing = DagFolderScanner(lambda: folder, compat.unignored_files, FileReader(compat.may_hold_dag)).read()
    assert listing.distrust is None
    return {item.key.dag_id for item in listing.declarations}


def read_by_airflow(folder):
    from airflow.utils.file import list_py_file_paths

    return {path.removeprefix(f"{folder}/") for path in list_py_file_paths(str(folder), include_examples=False)}


def with_syntax(monkeypatch, syntax):
    """Airflow reads the setting when its module is imported."""
    from airflow.utils import file

    monkeypatch.setattr(file.find_path_from_directory, "__defaults__", (syntax,))


def test_without_any_ignore_file_it_is_every_python_file_and_archive(folder):
    found = read_by_us(folder)

    assert found == read_by_airflow(folder)
    assert {"plain.py", ".hidden/d.py", "zipped.zip", "archive_without_suffix"} <= found
    assert "notes.txt" not in found


@pytest.mark.parametrize(
    ("syntax", "root", "nested"),
    [
        ("regexp", "ignored_by_.*\nskipped\n# plain\n\n", "dr.p\n"),
        ("glob", "**/ignored_by_*\n# comment\nskipped/\n!team/skipped/\n", "drop.py\n"),
        ("glob", "*.py\n!plain.py\nzipped.zip\n", "/keep.py\n"),
        ("regexp", "(unclosed\nteam/.*\n", ""),
    ],
)
def test_ignore_files_mean_what_they_mean_to_airflow(folder, monkeypatch, syntax, root, nested):
    with_syntax(monkeypatch, syntax)
    (folder / ".airflowignore").write_text(root)
    (folder / "team" / "deep" / ".airflowignore").write_text(nested)

    found = read_by_us(folder)

    assert found == read_by_airflow(folder)
    assert "plain.py" in found
    assert "team/ignored_by_root.py" not in found


def test_an_ignore_file_deep_below_counts(folder):
    (folder / "team" / "deep" / ".airflowignore").write_text("drop")

    assert read_by_us(folder) == read_by_airflow(folder)
    assert "team/deep/drop.py" not in read_by_us(folder)


def test_a_linked_folder_is_read_and_a_circle_is_no_statement_about_the_code(folder, tmp_path_factory):
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (elsewhere / "linked.py").write_text(declaring("link/linked.py"))
    (folder / "link").symlink_to(elsewhere)
    assert "link/linked.py" in read_by_us(folder)
    assert read_by_us(folder) == read_by_airflow(folder)

    (folder / "team" / "circle").symlink_to(folder / "team")
    listing = DagFolderScanner(lambda: folder, compat.unignored_files, FileReader(compat.may_hold_dag)).read()

    assert "recursive loop" in listing.distrust


def test_safe_mode_passes_over_a_file_that_mentions_no_airflow(folder, monkeypatch):
    (folder / "plain.py").write_text(declaring("plain.py", head=""))
    assert "plain.py" not in read_by_airflow(folder)
    assert read_by_us(folder) == read_by_airflow(folder)

    monkeypatch.setenv("AIRFLOW__CORE__DAG_DISCOVERY_SAFE_MODE", "False")

    assert "plain.py" in read_by_us(folder)


def test_the_folder_is_airflows_and_an_empty_setting_is_refused(monkeypatch):
    from airflow import settings

    assert str(compat.dags_folder()) == settings.DAGS_FOLDER
    for empty in ("", "  ", None):
        monkeypatch.setattr(settings, "DAGS_FOLDER", empty)
        with pytest.raises(ValueError, match="dags_folder is empty"):
            compat.dags_folder()
