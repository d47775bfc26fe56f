"""`MessageJudge`: filter, settlement policy and counters of one owner. Sending the settlement is `broker`'s part."""

from __future__ import annotations

from dataclasses import dataclass

from airflow_provider_rmq.errors import ConfigurationError
from airflow_provider_rmq.messages.filters import MessageFilter
from airflow_provider_rmq.messages.message import Message
from airflow_provider_rmq.messages.misses import FilterMissState
from airflow_provider_rmq.messages.settlement import FilterVerdict, Settlement, settlement_for
from airflow_provider_rmq.messages.turns import Turns, identity_of


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
    """What the filter said of one message and how it is answered; `reason` and `identity` only with an ERROR."""

    verdict: FilterVerdict
    settlement: Settlement
    reason: str | None = None
    identity: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageJudge:
    """Decides about messages of one queue; lives as long as its owner, which is what bounds the counters.

    Args:
        message_filter: What is asked.
        misses: Counts the answers.
        turns: Ends the turns of a message that cannot be read; without it they have no end.
    """

    message_filter: MessageFilter
    misses: FilterMissState
    turns: Turns | None = None

    def judge(self, message: Message) -> Judgement:
        """Decide; counts nothing."""
        verdict, reason = self.message_filter.evaluate_message(message)
        identity = identity_of(message) if verdict is FilterVerdict.ERROR and self.turns is not None else None
        exhausted = identity is not None and self.turns is not None and self.turns.is_last(identity)
        settlement = settlement_for(verdict, ack_unmatched=self.misses.ack_unmatched, exhausted=exhausted)
        return Judgement(verdict=verdict, settlement=settlement, reason=reason, identity=identity)

    def settled(self, judgement: Judgement) -> None:
        """Count; only after the broker was answered, so that a lost connection counts nothing."""
        if judgement.verdict is FilterVerdict.MATCH:
            self.misses.on_match()
        elif judgement.verdict is FilterVerdict.MISS:
            self.misses.on_miss()
        elif judgement.settlement is Settlement.DEAD_LETTER:
            self._end_turns(judgement)
        else:
            if self.turns is not None and judgement.identity is not None:
                self.turns.take(judgement.identity)
            self.misses.on_error(judgement.reason)

    def _end_turns(self, judgement: Judgement) -> None:
        if self.turns is not None and judgement.identity is not None:
            self.turns.end(judgement.identity)
            self.misses.on_given_up(judgement.identity, self.turns.most, judgement.reason)
