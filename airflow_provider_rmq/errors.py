"""The errors this package raises. A leaf exists only where somebody reacts differently to it."""

from __future__ import annotations


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


class TopologyConflict(BrokerError):
    """A queue or exchange exists with other properties; name it and do not retry hot."""


class AccessRefused(BrokerError):
    """The broker knows the user and refuses the operation; the text names the permission."""


class Unroutable(BrokerError):
    """A published message came back: no queue took it."""


class ManagementUnavailable(BrokerError):
    """The management API gave no usable answer; says nothing about the broker itself."""


class DagNotReady(RMQError):
    """Airflow holds no serialized version of the DAG yet."""


class AlreadySettled(RMQError):
    """A delivery was settled twice: a programming error, never the broker's."""


def describe(error: BaseException) -> str:
    """One line for a log or a status row; an exception without text is named by its type."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
