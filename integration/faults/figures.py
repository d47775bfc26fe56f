"""What each fault cost, gathered while the tests run and printed once at their end."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Figure:
    """One fault on one broker series; `seconds` from the end of the fault to the next run, None where it has none."""

    fault: str
    series: str
    seconds: float | None
    target: float | None
    published: int
    lost: int
    doubled: int

    def __str__(self) -> str:
        back = "-" if self.seconds is None else f"{self.seconds:.1f} s"
        target = "-" if self.target is None else f"{self.target:g} s"
        return (
            f"{self.fault:<46} RabbitMQ {self.series:<5} consuming again {back:>7} (target {target:>4})  "
            f"published {self.published:>4}  lost {self.lost}  doubled {self.doubled}"
        )


#: In the order of the tests.
FIGURES: list[Figure] = []
