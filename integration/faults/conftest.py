"""The site that the faults share, repaired before each; and their figures, printed at the end of the run."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from integration.faults.figures import FIGURES
from integration.faults.site import Site
from integration.lab.lab_state import LabSettings

#: The broker that comes with the machine, 3.10 on Debian 12.
HOST = "host"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print what each fault cost."""
    if FIGURES:
        terminalreporter.section("faults")
        for figure in FIGURES:
            terminalreporter.write_line(str(figure))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give every fault the same site, and those marked so a second one on RabbitMQ 4.0."""
    if "built_site" in metafunc.fixturenames:
        series: list[object] = [HOST]
        if metafunc.definition.get_closest_marker("on_4_0_too"):
            series.append(pytest.param("4.0", marks=pytest.mark.slow_fault))
        metafunc.parametrize("built_site", series, indirect=True, scope="session")


@pytest.fixture(scope="session")
def built_site(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A site, on the machine's own broker or on the series a test asks for."""
    series = request.param
    settings = LabSettings(series=None if series == HOST else series, settings=("collect_statistics_interval = 1000",))
    with Site(tmp_path_factory.mktemp("site"), settings) as site:
        yield site


@pytest.fixture
def site(built_site: Site) -> Site:
    """The site, in working order."""
    built_site.repair()
    return built_site
