"""A filter's function is found before its first message, or the row says why not."""

import sys
import types

import pytest
from factories import message

from airflow_provider_rmq.broker.consuming import Disposition
from airflow_provider_rmq.messages.settlement import Settlement
from airflow_provider_rmq.watcher.service.handlers.resolving import ResolvingHandler
from airflow_provider_rmq.watcher.states import StartFailed


async def accept(_message):
    return Disposition(settlement=Settlement.ACK)


async def test_what_cannot_be_resolved_goes_back_with_a_reason_and_a_growing_pause():
    handler = ResolvingHandler("no_such_module_anywhere:accepts", accept)

    first = await handler(message())

    assert first.settlement is Settlement.REQUEUE
    assert isinstance(first.event, StartFailed)
    assert "no_such_module_anywhere:accepts cannot be resolved in the watcher: ModuleNotFound" in first.event.reason
    assert first.pause > 0


async def test_a_module_that_appears_later_needs_no_restart(monkeypatch):
    handler = ResolvingHandler("rules_of_this_test:accepts", accept)
    assert (await handler(message())).settlement is Settlement.REQUEUE

    module = types.ModuleType("rules_of_this_test")
    module.accepts = lambda _properties, _body: True
    monkeypatch.setitem(sys.modules, "rules_of_this_test", module)

    assert (await handler(message())).settlement is Settlement.ACK


@pytest.mark.parametrize("path", ["json:dumps", "os:path.join"])
async def test_what_is_there_is_asked_at_once(path):
    assert (await ResolvingHandler(path, accept)(message())).settlement is Settlement.ACK
