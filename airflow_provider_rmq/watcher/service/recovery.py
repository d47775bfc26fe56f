"""Once a cycle for each Airflow connection: ask (`broker.probes`), judge (`liveness`), carry the verdict out.

What comes of it for the rows is a `ConnectionReport`; the loop stores it. Connections are checked side by side, so one
that does not answer costs the others nothing.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Protocol

from airflow_provider_rmq.broker.consumer_listing import ConsumerListing
from airflow_provider_rmq.broker.management import NoManagementUrl
from airflow_provider_rmq.errors import BrokerError, describe
from airflow_provider_rmq.messages.misses import is_power_of_ten
from airflow_provider_rmq.watcher.service.liveness import (
    NO_DATA_UNTIL_PASSIVE,
    Answered,
    ConnectionVerdict,
    NoData,
    ProbeAnswer,
    Question,
    Seen,
    Silent,
    Strikes,
    is_idle,
    judge_connection,
    must_ask_connection,
)
from airflow_provider_rmq.watcher.states import ConnectionReport, ConnectionStatus
from airflow_provider_rmq.watcher.subscription import ConsumerKey

log = logging.getLogger(__name__)


class Consumers(Protocol):
    """The consumers of this process, as the check needs them."""

    def question(self, conn_id: str) -> Question:
        """What is running on a connection."""
        ...

    def tell(self, verdict: ConnectionVerdict) -> None:
        """Let the consumers know what the broker says of them."""
        ...

    async def restart(self, keys: Iterable[ConsumerKey]) -> None:
        """Cancel these consumers and start them again."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Probes:
    """The ways to ask a broker; all raise `BrokerError` where there is no answer.

    Args:
        list_consumers: The management API's list.
        require_answer: A call on the open consuming connection, with a queue to ask about or without.
        is_connected: Whether there is an open consuming connection.
        connect_failure: Why there is none, where an attempt has failed.
        recreate: Close the consuming connection, so that the next who asks opens a new one.
    """

    list_consumers: Callable[[str], Awaitable[ConsumerListing]]
    require_answer: Callable[[str, str | None], Awaitable[None]]
    is_connected: Callable[[str], bool]
    connect_failure: Callable[[str], str | None]
    recreate: Callable[[str], Awaitable[None]]


@dataclass(slots=True)
class Recovery:
    """Checks the connections of this process and repairs what two checks in a row condemn."""

    consumers: Consumers
    probes: Probes
    clock: Callable[[], float] = time.monotonic
    _strikes: dict[str, Strikes] = field(default_factory=dict)

    async def check(self, conn_ids: Iterable[str]) -> dict[str, ConnectionReport]:
        """Check these connections and repair; never raises for what a broker does."""
        named = sorted(set(conn_ids))
        self._strikes = {conn_id: self._strikes.get(conn_id, Strikes()) for conn_id in named}
        reports = await asyncio.gather(*(self._check_one(conn_id) for conn_id in named))
        return dict(zip(named, reports, strict=True))

    async def _check_one(self, conn_id: str) -> ConnectionReport:
        strikes = self._strikes[conn_id]
        question = self._question(conn_id)
        answer = await self._ask(conn_id, question, strikes)
        verdict, self._strikes[conn_id] = judge_connection(question, answer, strikes)
        self._log(conn_id, verdict)
        self.consumers.tell(verdict)
        if verdict.recreate:
            await self.probes.recreate(conn_id)
            await self.consumers.restart(verdict.restart)
        return ConnectionReport(
            status=verdict.status,
            error=verdict.reason,
            consumers=self._question(conn_id).live,
            broker_consumers=verdict.broker_consumers,
        )

    def _question(self, conn_id: str) -> Question:
        return replace(self.consumers.question(conn_id), connect_failure=self.probes.connect_failure(conn_id))

    async def _ask(self, conn_id: str, question: Question, strikes: Strikes) -> ProbeAnswer:
        if not question.live:
            return NoData("there is nothing to ask about")
        if is_idle(question):
            if must_ask_connection(question, strikes) and self.probes.is_connected(conn_id):
                return await self._passive(conn_id, None)
            return NoData("no consumer is registered yet, and nobody may have connected")
        queues = sorted({item.key.queue_name for item in question.asked})
        taken_at = self.clock()
        try:
            listing = await self.probes.list_consumers(conn_id)
        except NoManagementUrl:
            return await self._passive(conn_id, queues[0])
        except BrokerError as error:
            if strikes.no_data + 1 >= NO_DATA_UNTIL_PASSIVE:
                self._complain(conn_id, strikes.no_data + 1, describe(error), "asking by passive declare")
                return await self._passive(conn_id, queues[0], blind=True)
            self._complain(conn_id, strikes.no_data + 1, describe(error), "nothing is concluded from that")
            return NoData(describe(error))
        return Seen(listing.tags, listing.count(queues), taken_at)

    async def _passive(self, conn_id: str, queue_name: str | None, *, blind: bool = False) -> ProbeAnswer:
        try:
            await self.probes.require_answer(conn_id, queue_name)
        except BrokerError as error:
            return Silent(describe(error), is_instead_of_list=blind)
        return Answered(is_instead_of_list=blind)

    def _complain(self, conn_id: str, count: int, reason: str, consequence: str) -> None:
        if is_power_of_ten(count, first=1) or count == NO_DATA_UNTIL_PASSIVE:
            log.warning(
                "%s: the management API gave no usable answer (%d in a row), %s: %s",
                conn_id,
                count,
                consequence,
                reason,
            )

    def _log(self, conn_id: str, verdict: ConnectionVerdict) -> None:
        for item, reason in verdict.denied.items():
            log.warning("%s: consumer of queue %s is not confirmed: %s", conn_id, item.key.queue_name, reason)
        if verdict.recreate:
            log.warning(
                "%s: its connection is opened again: %s; consumers started again: %s; confirmed consumers that lose it "
                "and attach again by themselves: %s",
                conn_id,
                verdict.reason,
                _names(verdict.restart),
                _names(item.key for item in verdict.confirmed),
            )
        elif verdict.status is ConnectionStatus.DEGRADED:
            log.warning("%s: %s", conn_id, verdict.reason)


def _names(keys: Iterable[ConsumerKey]) -> str:
    return ", ".join(sorted(key.queue_name for key in keys)) or "none"
