"""When a worker that has died is started again. Pure: exit code and lifetime in, decision out."""

from __future__ import annotations

from dataclasses import dataclass, field

from airflow_provider_rmq.messages.backoff import Backoff

#: Exit code of a process that was stopped.
EXIT_STOPPED = 0
#: Exit code of a process that failed.
EXIT_FAILED = 1
#: Exit code of a process that was started wrongly; starting it again the same way would end the same way.
EXIT_MISUSED = 2

#: Seconds of life after which a worker counts as healthy and its next death starts with the shortest delay.
HEALTHY_LIFETIME = 300.0


@dataclass(frozen=True, slots=True)
class RestartAfter:
    """Start the worker again after so many seconds."""

    delay: float


@dataclass(frozen=True, slots=True)
class Leave:
    """End the supervisor with this code."""

    code: int


@dataclass(slots=True)
class RestartPolicy:
    """Restarts after 1 s, doubling to 60 s; back to 1 s once a worker has lived for five minutes."""

    backoff: Backoff = field(default_factory=Backoff)

    def next(self, code: int, lifetime: float) -> RestartAfter | Leave:
        """What to do about a worker that ended.

        Args:
            code: Its return code; negative for a signal.
            lifetime: Seconds it lived.
        """
        if code in (EXIT_STOPPED, EXIT_MISUSED):
            return Leave(code)
        if lifetime >= HEALTHY_LIFETIME:
            self.backoff.reset()
        return RestartAfter(self.backoff.next())
