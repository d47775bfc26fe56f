"""A subscription with cooldown: its messages open a window, whose end starts the DAG (`fire`).

| what happened | settlement | event | pause |
|---|---|---|---|
| the filter rejects it, or cannot be evaluated | as in `starting` | none | as in `starting` |
| the marker is confirmed | ACK | Delivered | none |
| a window is open already | ACK | Delivered | none |
| the marker came back, timed out, was refused | REQUEUE | StartFailed | growing, shared by the DAG's subscriptions |
| the consumer stops meanwhile | REQUEUE | none | none |
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, replace
from functools import partial

from airflow_provider_rmq.broker.consuming import Disposition
from airflow_provider_rmq.broker.publishing import Marker, MarkerOutcome, MarkerReport
from airflow_provider_rmq.messages.conf_bounds import ConfBounds
from airflow_provider_rmq.messages.judge import MessageJudge
from airflow_provider_rmq.messages.markers import MarkerPayload
from airflow_provider_rmq.messages.message import DEFAULT_BOUNDS, Message
from airflow_provider_rmq.messages.settlement import FilterVerdict, Settlement
from airflow_provider_rmq.watcher.service.cooldown_windows import CooldownWindow
from airflow_provider_rmq.watcher.service.handlers.starting import rejected
from airflow_provider_rmq.watcher.states import ConsumerEvent, Delivered, StartFailed
from airflow_provider_rmq.watcher.subscription import Subscription

log = logging.getLogger(__name__)


@dataclass(slots=True)
class CooldownHandler:
    """Opens the window of the subscription's DAG."""

    subscription: Subscription
    window: CooldownWindow
    judge: MessageJudge
    stop: asyncio.Event
    bounds: ConfBounds = DEFAULT_BOUNDS

    async def __call__(self, message: Message) -> Disposition[ConsumerEvent]:
        """Decide about one message; never raises."""
        judgement = self.judge.judge(message)
        if judgement.verdict is not FilterVerdict.MATCH:
            return rejected(self.judge, judgement)
        report = await self.window.ensure_open(self._marker(message), self.stop)
        if report is None:
            return Disposition(settlement=Settlement.REQUEUE)
        disposition = self._opened(report) if report.outcome.is_open else self._failed(report)
        return replace(disposition, settled=partial(self.judge.settled, judgement))

    def _marker(self, message: Message) -> Marker:
        subscription = self.subscription
        return Marker(
            dag_id=subscription.key.dag_id,
            cooldown=subscription.cooldown,
            payload=MarkerPayload.of(message, self.bounds) if subscription.keep_payload else None,
        )

    def _opened(self, report: MarkerReport) -> Disposition[ConsumerEvent]:
        if report.outcome is MarkerOutcome.OPENED:
            log.info("%s: a cooldown window of %d s opens", self.subscription, self.subscription.cooldown)
        return Disposition(settlement=Settlement.ACK, event=Delivered())

    def _failed(self, report: MarkerReport) -> Disposition[ConsumerEvent]:
        reason = f"the cooldown window cannot be opened, {report.outcome.value}: {report.reason}".rstrip(": ")
        pause = self.window.pause.rest()
        log.warning("%s: %s; the message goes back, next attempt in %.0f s", self.subscription, reason, pause)
        return Disposition(settlement=Settlement.REQUEUE, event=StartFailed(reason), pause=pause)
