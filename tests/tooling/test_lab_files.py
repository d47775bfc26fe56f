"""What the lab writes and keeps: node configuration, its own state, folders it may empty."""

from __future__ import annotations

import pytest

from integration.lab.folder import fresh_folder
from integration.lab.lab_state import LabSettings, LabState, Node
from integration.lab.node_files import advanced, configuration
from integration.lab.ports import free_ports
from integration.lab.processes import LabError, ProcessId
from integration.lab.surroundings import Surroundings


def lab_state(settings: LabSettings) -> LabState:
    state = LabState(settings, "/somewhere", None, False, "", 4000)
    state.nodes["n1"] = Node("n1", 1, 2, 3, beam=ProcessId(4, 5))
    return state


def test_a_saved_lab_is_read_back_as_it_was(tmp_path):
    state = lab_state(LabSettings(names=("n1",), settings=("a=b",), tls=True))

    state.save(tmp_path / "lab.json")

    assert LabState.load(tmp_path / "lab.json") == state


def test_a_setting_replaces_the_labs_default(tmp_path):
    state = lab_state(LabSettings(settings=("disk_free_limit.absolute=1GB", "consumer_timeout = 10000")))

    lines = configuration(state, state.nodes["n1"], Surroundings(tmp_path, state))

    assert [line for line in lines if line.startswith("disk_free_limit")] == ["disk_free_limit.absolute = 1GB"]
    assert "consumer_timeout = 10000" in lines


def test_settings_without_a_name_are_grouped_by_application():
    assert advanced(("rabbit.a=1", "other.b=2", "rabbit.c=3")) == "[{rabbit,[{a,1},{c,3}]},{other,[{b,2}]}].\n"


def test_free_ports_are_different():
    assert len(set(free_ports(20))) == 20


def test_a_fresh_folder_is_emptied_only_when_the_same_command_made_it(tmp_path):
    folder = tmp_path / ".demo"
    with fresh_folder(folder, "make demo"):
        (folder / "old").mkdir()
        (folder / "old/file").touch()

    with fresh_folder(folder, "make demo"):
        assert not (folder / "old").exists()
    with pytest.raises(LabError, match="was not made by make test"), fresh_folder(folder, "make test"):
        pass


def test_a_folder_of_somebody_else_is_left_alone(tmp_path):
    (tmp_path / "precious").touch()

    with pytest.raises(LabError, match="was not made by make demo; move it away"), fresh_folder(tmp_path, "make demo"):
        pass

    assert (tmp_path / "precious").exists()


def test_one_run_at_a_time_has_the_folder(tmp_path):
    with (
        fresh_folder(tmp_path / "it", "make demo"),
        pytest.raises(LabError, match="another make demo runs"),
        fresh_folder(tmp_path / "it", "make demo"),
    ):
        pass
