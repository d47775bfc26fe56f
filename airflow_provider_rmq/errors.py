"""The errors this package raises. A leaf exists only where somebody reacts differently to it."""

from __future__ import annotations

from dataclasses import dataclass


class RMQError(Exception):
    """Base of all errors of this package."""


class ConfigurationError(RMQError, ValueError):
    """An argument, a connection extra or a form field is wrong; the text says what was given and what is allowed."""


class BrokerError(RMQError):
    """Something went wrong at the broker; the client library's error is the `__cause__`."""


class ConnectionLost(BrokerError):
    """The AMQP connection or channel is gone; attach again after a pause."""


class RegistrationLost(BrokerError):
    """The broker cancelled one consumer while its channel stayed open; attach again after a pause."""


class QueueMissing(BrokerError):
    """The queue does not exist."""


class UndecodableMessage(BrokerError):
    """Headers of a message that no rule can read; it is unsettled, so no filter decides and nothing deletes it."""


class TopologyConflict(BrokerError):
    """A queue or exchange exists with other properties; name it and do not retry hot."""


class AccessRefused(BrokerError):
    """The broker knows the user and refuses the operation; the text names the permission."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishReport:
    """What became of each message of a batch, by its index.

    `confirmed`, the broker has it; `unroutable`, it came back, no queue took it; `refused`, the broker said no;
    `unknown`, sent without an answer, so it may or may not be there; `not_sent`, it never left.
    """

    confirmed: tuple[int, ...] = ()
    unroutable: tuple[int, ...] = ()
    refused: tuple[int, ...] = ()
    unknown: tuple[int, ...] = ()
    not_sent: tuple[int, ...] = ()


class PublishFailed(BrokerError):
    """A message, or a part of a batch, was not confirmed; `report` tells the indexes apart."""

    def __init__(self, text: str, report: PublishReport | None = None) -> None:
        super().__init__(text)
        self.report = report or PublishReport()


class Unroutable(PublishFailed):
    """A published message came back: no queue took it."""


class ManagementUnavailable(BrokerError):
    """The management API gave no usable answer; says nothing about the broker itself."""


class DagNotReady(RMQError):
    """Airflow holds no serialized version of the DAG yet."""


class DagRunRefused(RMQError):
    """The DAG does not take this conf; trying again helps only when the DAG has changed."""


class AlreadySettled(RMQError):
    """A delivery was settled twice: a programming error, never the broker's."""


def describe(error: BaseException) -> str:
    """One line for a log or a status row; an exception without text is named by its type."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
