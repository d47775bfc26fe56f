"""The scan of a folder: changed files only, broken ones held once, an unlistable folder distrusted."""

from pathlib import Path

import pytest

from airflow_provider_rmq.watcher.dagfiles import scanner as scanner_module
from airflow_provider_rmq.watcher.dagfiles.scanner import DagFolderScanner


def dag(dag_id):
    return f'@rmq_trigger(queue="q")\n@dag(dag_id="{dag_id}")\ndef f(): ...\n'


@pytest.fixture
def scanner(tmp_path):
    return DagFolderScanner(lambda: tmp_path)


def found(scanner):
    listing = scanner.read()
    assert listing.distrust is None
    return sorted(item.key.dag_id for item in listing.declarations)


def test_it_finds_files_at_any_depth(scanner, tmp_path):
    (tmp_path / "a.py").write_text(dag("a"))
    (tmp_path / "team" / "x").mkdir(parents=True)
    (tmp_path / "team" / "x" / "b.py").write_text(dag("b"))
    (tmp_path / "c.txt").write_text(dag("c"))
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "__pycache__" / "d.py").write_text(dag("d"))

    assert found(scanner) == ["a", "b"]


def test_a_changed_file_is_read_again_and_an_unchanged_one_is_not(scanner, tmp_path, monkeypatch):
    read = []
    real = scanner_module.read_file_text

    def noting(text, path):
        read.append(Path(path).name)
        return real(text, path)

    monkeypatch.setattr(scanner_module, "read_file_text", noting)
    (tmp_path / "a.py").write_text(dag("a"))
    (tmp_path / "b.py").write_text(dag("b"))
    found(scanner)

    (tmp_path / "b.py").write_text(dag("changed"))

    assert found(scanner) == ["a", "changed"]
    assert read == ["a.py", "b.py", "b.py"]


def test_a_deleted_file_declares_nothing_any_more(scanner, tmp_path):
    (tmp_path / "a.py").write_text(dag("a"))
    found(scanner)

    (tmp_path / "a.py").unlink()

    assert found(scanner) == []


@pytest.mark.parametrize("broken", [b"rmq_trigger(", b"\xff rmq_trigger"])
def test_a_broken_file_keeps_what_it_declared_for_one_scan(scanner, tmp_path, broken):
    (tmp_path / "a.py").write_text(dag("a"))
    found(scanner)

    (tmp_path / "a.py").write_bytes(broken)

    assert [found(scanner) for _ in range(3)] == [["a"], [], []]


def test_a_repaired_file_is_read_again(scanner, tmp_path):
    (tmp_path / "a.py").write_text(dag("a"))
    found(scanner)
    (tmp_path / "a.py").write_text("rmq_trigger(")
    found(scanner)

    (tmp_path / "a.py").write_text(dag("repaired"))

    assert found(scanner) == ["repaired"]


def test_a_complaint_is_logged_when_the_file_is_read_and_not_in_every_scan(scanner, tmp_path, caplog):
    (tmp_path / "a.py").write_text("@rmq_trigger(queue=secret())\n@dag()\ndef d(): ...")

    complaints = [scanner.read().complaints for _ in range(3)]

    assert all(len(items) == 1 for items in complaints)
    assert len([record for record in caplog.records if "not registered" in record.message]) == 1


def test_a_folder_that_does_not_exist_is_no_statement_about_the_code(tmp_path):
    listing = DagFolderScanner(lambda: tmp_path / "missing").read()

    assert "is no folder" in listing.distrust


def test_a_setting_that_cannot_be_read_is_no_statement_about_the_code():
    def unreadable():
        raise ValueError("no such option")

    assert "no such option" in DagFolderScanner(unreadable).read().distrust


def test_a_folder_that_comes_back_is_trusted_again(tmp_path):
    folder = tmp_path / "dags"
    folder.mkdir()
    (folder / "a.py").write_text(dag("a"))
    scanner = DagFolderScanner(lambda: folder)
    found(scanner)
    folder.rename(tmp_path / "gone")
    assert scanner.read().distrust

    (tmp_path / "gone").rename(folder)

    assert found(scanner) == ["a"]
