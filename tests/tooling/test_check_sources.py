"""`tools.check_sources` finds modules that grew too long and files that know one machine."""

from __future__ import annotations

import pytest

from tools.check_sources import LONGEST, PROJECT, findings

ELSEWHERE = "/" + "home/somebody/project"


@pytest.fixture
def project(tmp_path):
    (tmp_path / "tools").mkdir()
    return tmp_path


def test_a_module_of_the_longest_allowed_length_passes(project):
    (project / "tools/long.py").write_text("x = 1\n" * LONGEST)

    assert list(findings(project)) == []


def test_a_longer_module_is_named_with_its_length(project):
    (project / "tools/long.py").write_text("x = 1\n" * (LONGEST + 1))

    assert list(findings(project)) == ["tools/long.py: 401 lines, at most 400: split it by reason to change"]


def test_long_text_that_is_no_module_passes(project):
    (project / "tools/notes.md").write_text("text\n" * 1000)

    assert list(findings(project)) == []


@pytest.mark.parametrize("place", [ELSEWHERE, "/" + "root/.cache", "/" + "Users/somebody/project"])
def test_a_home_directory_is_named_with_its_line(project, place):
    (project / "readme.md").write_text(f"first\nsee {place} for more\n")

    assert list(findings(project)) == [f"readme.md:2: names a home directory: see {place} for more"]


@pytest.mark.parametrize("text", ["api/root/x", "https://example.org/home/page/x", "the home/ folder", "/var/tmp/x"])
def test_other_paths_pass(project, text):
    (project / "readme.md").write_text(text)

    assert list(findings(project)) == []


def test_this_project_has_no_findings():
    assert list(findings(PROJECT)) == []
