"""Programs that end with their test, with every process that told its PID."""

import pytest
from programs import Program, end


@pytest.fixture
def start(tmp_path):
    """Start programs; all that told `worker PID` or `self PID` are ended."""
    started = []

    def make(template, patches="", **given):
        folder = tmp_path / str(len(started))
        folder.mkdir()
        started.append(Program(template, folder, patches, **given))
        return started[-1]

    yield make
    for program in started:
        if program.process.poll() is None:
            program.process.kill()
            program.process.wait()
        for pid in [*program.pids("worker"), *program.pids("self")]:
            end(pid)
