"""`MessageJudge`: filter, settlement policy and counters of one owner. Sending the settlement is `broker`'s part."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_provider_rmq.errors import ConfigurationError
from airflow_provider_rmq.messages.filters import MessageFilter
from airflow_provider_rmq.messages.message import Message
from airflow_provider_rmq.messages.misses import FilterMissState
from airflow_provider_rmq.messages.settlement import FilterVerdict, Settlement, settlement_for


def check_ack_unmatched(value: object) -> bool:
    """`ack_unmatched` as given to a constructor; the text "false" is truthy, and the parameter deletes messages.

    Raises:
        ConfigurationError: It is no bool.
    """
    if not isinstance(value, bool):
        raise ConfigurationError(f"ack_unmatched must be a bool, True or False, not {value!r}")
    return value


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """What the filter said of one message and how it is answered; `reason` only with an ERROR."""

    verdict: FilterVerdict
    settlement: Settlement
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageJudge:
    """Decides about messages of one queue; lives as long as its owner, which is what bounds the counters."""

    message_filter: MessageFilter
    misses: FilterMissState

    def judge(self, message: Message) -> Judgement:
        """Decide; counts nothing."""
        verdict, reason = self.message_filter.evaluate_message(message)
        settlement = settlement_for(verdict, ack_unmatched=self.misses.ack_unmatched)
        return Judgement(verdict=verdict, settlement=settlement, reason=reason)

    def settled(self, judgement: Judgement) -> None:
        """Count; only after the broker was answered, so that a lost connection counts nothing."""
        if judgement.verdict is FilterVerdict.MATCH:
            self.misses.on_match()
        elif judgement.verdict is FilterVerdict.MISS:
            self.misses.on_miss()
        else:
            self.misses.on_error(judgement.reason)
