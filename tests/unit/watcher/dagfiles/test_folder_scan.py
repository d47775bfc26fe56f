"""The scan of a folder: changed files only, broken ones held once, a scan that says nothing distrusted.

Which files Airflow ignores is its own part: `tests/airflow/test_files_airflow_reads.py`.
"""

import os
import threading
import zipfile
from pathlib import Path

import pytest

from airflow_provider_rmq.watcher.dagfiles import file_reader as reader_module
from airflow_provider_rmq.watcher.dagfiles.file_reader import FileReader
from airflow_provider_rmq.watcher.dagfiles.scanner import DagFolderScanner


def dag(dag_id, queue="q"):
    return f'@rmq_trigger(queue="{queue}")\n@dag(dag_id="{dag_id}")\ndef f(): ...\n'


def unignored(folder):
    """Stands in for Airflow's walk, which knows more and costs more."""
    return (str(path) for path in sorted(Path(folder).rglob("*")) if path.name != ".airflowignore")


def scanner_of(folder, may_hold_dag=lambda path, archive: True):
    return DagFolderScanner(folder, unignored, FileReader(may_hold_dag))


@pytest.fixture
def scanner(tmp_path):
    """A scan of a folder that holds three files without any meaning."""
    for number in range(3):
        (tmp_path / f"plain{number}.py").write_text("x = 1\n")
    return scanner_of(lambda: tmp_path)


def found(scanner):
    listing = scanner.read()
    assert listing.distrust is None
    return sorted(item.key.dag_id for item in listing.declarations)


def test_it_finds_files_at_any_depth(scanner, tmp_path):
    (tmp_path / "a.py").write_text(dag("a"))
    (tmp_path / "team" / "x").mkdir(parents=True)
    (tmp_path / "team" / "x" / "b.py").write_text(dag("b"))
    (tmp_path / "c.txt").write_text(dag("c"))

    assert found(scanner) == ["a", "b"]


def test_a_changed_file_is_read_again_and_an_unchanged_one_is_not(scanner, tmp_path, monkeypatch):
    read = []
    real = reader_module.read_file_text

    def noting(text, path, **more):
        read.append(Path(path).name)
        return real(text, path, **more)

    found(scanner)
    monkeypatch.setattr(reader_module, "read_file_text", noting)
    (tmp_path / "a.py").write_text(dag("a"))
    (tmp_path / "b.py").write_text(dag("b"))
    found(scanner)

    (tmp_path / "b.py").write_text(dag("changed"))

    assert found(scanner) == ["a", "changed"]
    assert sorted(read) == ["a.py", "b.py", "b.py"]


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
    listing = scanner_of(lambda: tmp_path / "missing").read()

    assert "No such file" in listing.distrust


def test_a_setting_that_cannot_be_read_is_no_statement_about_the_code():
    def unreadable():
        raise ValueError("no such option")

    assert "no such option" in scanner_of(unreadable).read().distrust


def test_a_folder_that_comes_back_is_trusted_again(tmp_path):
    folder = tmp_path / "dags"
    folder.mkdir()
    (folder / "a.py").write_text(dag("a"))
    scanner = scanner_of(lambda: folder)
    found(scanner)
    folder.rename(tmp_path / "gone")
    assert scanner.read().distrust

    (tmp_path / "gone").rename(folder)

    assert found(scanner) == ["a"]


def test_a_file_that_cannot_be_stated_is_held_once_too(scanner, tmp_path):
    (tmp_path / "a.py").write_text(dag("a"))
    found(scanner)
    (tmp_path / "a.py").unlink()
    (tmp_path / "a.py").symlink_to(tmp_path / "nowhere")

    assert [found(scanner) for _ in range(3)] == [["a"], [], []]


def test_a_file_that_is_broken_says_so_once_in_the_log_and_in_every_listing(scanner, tmp_path, caplog):
    (tmp_path / "a.py").write_text(dag("a"))
    found(scanner)
    (tmp_path / "a.py").write_text("rmq_trigger(")

    complaints = [[str(item) for item in scanner.read().complaints] for _ in range(4)]

    assert complaints[0] == []
    assert all("cannot be read: SyntaxError" in text for (text,) in complaints[1:])
    assert len([record for record in caplog.records if "nothing in it is registered" in record.message]) == 1


def test_a_known_file_cut_off_before_its_declaration_is_broken_and_not_without_one(scanner, tmp_path):
    (tmp_path / "a.py").write_text("import (\n  x)\n".replace("import (", "from x import (") + dag("a"))
    found(scanner)

    (tmp_path / "a.py").write_text("from x import (\n")

    assert [found(scanner) for _ in range(2)] == [["a"], []]


def test_a_folder_that_loses_most_of_its_files_is_distrusted_three_times(scanner, tmp_path):
    (tmp_path / "a.py").write_text(dag("a"))
    found(scanner)
    for path in tmp_path.glob("plain*.py"):
        path.unlink()

    reasons = [scanner.read().distrust for _ in range(4)]

    assert ["this is number" in (reason or "") for reason in reasons] == [True, True, True, False]
    assert found(scanner) == ["a"]


@pytest.mark.parametrize("refuse", ["cut off", "gone"])
def test_which_way_the_files_refuse_plays_no_part(scanner, tmp_path, refuse):
    (tmp_path / "a.py").write_text(dag("a"))
    found(scanner)

    for path in tmp_path.glob("*.py"):
        if refuse == "cut off":
            path.write_text("def (")
        else:
            path.unlink()
            path.symlink_to(tmp_path / "nowhere")

    assert "of 4 DAG files listed 0 can be read, and 4 were known" in scanner.read().distrust


def test_files_that_are_all_cut_off_at_the_start_are_distrusted(tmp_path):
    for number in range(3):
        (tmp_path / f"{number}.py").write_text("def (")
    scanner = scanner_of(lambda: tmp_path)

    assert [bool(scanner.read().distrust) for _ in range(5)] == [True, True, True, False, False]


def test_one_whole_file_at_the_start_is_enough(tmp_path):
    (tmp_path / "a.py").write_text("def (")
    (tmp_path / "b.py").write_text(dag("b"))

    assert found(scanner_of(lambda: tmp_path)) == ["b"]


def test_what_a_distrusted_scan_did_not_see_is_still_known_afterwards(scanner, tmp_path, monkeypatch):
    (tmp_path / "a.py").write_text(dag("a"))
    found(scanner)
    away = tmp_path / "away"
    away.mkdir()
    for path in list(tmp_path.glob("*.py")):
        path.rename(away / path.name)
    (tmp_path / ".airflowignore").write_text("away")
    monkeypatch.setattr(scanner, "unignored", lambda folder: [])
    assert scanner.read().distrust
    for path in list(away.glob("*.py")):
        path.rename(tmp_path / path.name)
    (tmp_path / ".airflowignore").unlink()
    (tmp_path / "a.py").write_text("rmq_trigger(")

    assert found(scanner) == ["a"]


def test_files_that_were_only_out_of_sight_are_counted_again(scanner, tmp_path, monkeypatch):
    (tmp_path / "a.py").write_text(dag("a"))
    (tmp_path / ".airflowignore").write_text("")
    found(scanner)
    monkeypatch.setattr(scanner, "unignored", lambda folder: [str(tmp_path / "a.py")])
    assert scanner.read().distrust
    monkeypatch.setattr(scanner, "unignored", unignored)

    assert [found(scanner) for _ in range(3)] == [["a"]] * 3


def test_a_folder_below_that_refuses_to_be_listed_hides_its_files_and_does_not_end_them(scanner, tmp_path, monkeypatch):
    """A volume's `lost+found` must not stop every sync, and a locked folder is no deletion."""
    locked = tmp_path / "team"
    locked.mkdir()
    (locked / "a.py").write_text(dag("a"))
    assert found(scanner) == ["a"]
    real = os.scandir

    def refusing(path):
        if Path(path) == locked:
            raise PermissionError(13, "Permission denied", str(path))
        return real(path)

    monkeypatch.setattr(os, "scandir", refusing)
    assert [found(scanner) for _ in range(3)] == [["a"]] * 3

    monkeypatch.undo()
    (locked / "a.py").unlink()
    assert found(scanner) == []


def test_what_is_no_regular_file_is_never_opened(scanner, tmp_path):
    os.mkfifo(tmp_path / "pipe.py")
    (tmp_path / "a.py").write_text(dag("a"))

    assert found(scanner) == ["a"]


def test_a_key_declared_by_two_files_is_the_first_ones_and_a_warning(scanner, tmp_path, caplog):
    (tmp_path / "b.py").write_text(dag("same"))
    (tmp_path / "a.py").write_text(dag("same").replace('"q"', '"q", ack_unmatched=True'))

    listings = [scanner.read() for _ in range(3)]

    assert all([item.ack_unmatched for item in listing.declarations] == [True] for listing in listings)
    assert all("is declared already in" in str(listing.complaints[0]) for listing in listings)
    (record,) = [record for record in caplog.records if "declared already" in record.message]
    assert record.levelname == "WARNING"
    assert str(tmp_path / "b.py") in record.message
    assert str(tmp_path / "a.py") in record.message


def test_the_python_files_in_the_root_of_an_archive_are_read(scanner, tmp_path):
    with zipfile.ZipFile(tmp_path / "dags.zip", "w") as archive:
        archive.writestr("a.py", dag("a"))
        archive.writestr("package/b.py", dag("b"))
        archive.writestr("c.txt", dag("c"))

    assert found(scanner) == ["a"]


def test_an_archive_that_is_cut_off_keeps_what_it_declared_for_one_scan(scanner, tmp_path):
    with zipfile.ZipFile(tmp_path / "dags.zip", "w") as archive:
        archive.writestr("a.py", dag("a"))
    found(scanner)
    whole = (tmp_path / "dags.zip").read_bytes()

    (tmp_path / "dags.zip").write_bytes(whole[: len(whole) // 2])

    assert [found(scanner) for _ in range(2)] == [["a"], []]


def test_a_broken_member_costs_only_itself(scanner, tmp_path):
    with zipfile.ZipFile(tmp_path / "dags.zip", "w") as archive:
        archive.writestr("a.py", dag("a"))
        archive.writestr("b.py", "rmq_trigger(")

    listing = scanner.read()

    assert [item.key.dag_id for item in listing.declarations] == ["a"]
    assert "SyntaxError" in str(listing.complaints[0])


def test_a_file_that_airflow_passes_over_declares_nothing_and_says_so(tmp_path):
    (tmp_path / "a.py").write_text(dag("a"))
    listing = scanner_of(lambda: tmp_path, lambda path, archive: False).read()

    assert listing.declarations == frozenset()
    assert "safe mode passes over it" in str(listing.complaints[0])


def test_a_second_scan_at_the_same_time_is_no_statement(tmp_path):
    entered, go_on = threading.Event(), threading.Event()

    def folder():
        entered.set()
        go_on.wait(10)
        return tmp_path

    scanner = scanner_of(folder)
    first = threading.Thread(target=scanner.read)
    first.start()
    entered.wait(10)

    distrust = scanner.read().distrust
    go_on.set()
    first.join()

    assert "has not ended" in distrust
