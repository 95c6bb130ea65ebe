"""What a policy may say, as strict models: three tiers, as data centres use them.

    reservation  shares and cores that are set before the run and stay
    scaling      shares that move with the load, within the reservation
    priority     classes of requests with levels, and ageing

Reading a file into these is `policy_file.py`.
"""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

Resource = Literal["gpu_compute", "cores"]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


class Reservation(_Strict):
    """What is set aside before the run.

    gpu_memory   share of the GPU's memory
    gpu_compute  share of the GPU's compute units
    cores        CPU cores for the whole process: how many, or which
    cache_ways   ways of the last-level cache that the process may fill
    """

    gpu_memory: float | None = Field(None, gt=0, le=1)
    gpu_compute: float | None = Field(None, gt=0, le=1)
    cores: int | list[int] | None = None
    cache_ways: int | None = Field(None, ge=1, le=64)

    @property
    def wanted(self) -> dict[str, float | int | list[int]]:
        """What the file names, by key."""
        return {key: value for key in type(self).model_fields if (value := getattr(self, key)) is not None}


class Scaling(_Strict):
    """One share that moves with the load, between `minimum` and `maximum` of what is reserved (of all, where nothing is).

    by           what is looked at: requests that wait, or the share of time for which compute is busy
    high, low    at `high` or more the share grows by `step`, at `low` or less it shrinks by it
    period_ms    how often the load is looked at
    cooldown_ms  how long a share stays after it has moved
    """

    resource: Resource
    by: Literal["queue", "utilization"] = "queue"
    high: float = Field(gt=0, le=1_000_000)
    low: float = Field(ge=0, le=1_000_000)
    step: float = Field(0.1, gt=0, le=1)
    minimum: float = Field(0.1, gt=0, le=1)
    maximum: float = Field(1.0, gt=0, le=1)
    period_ms: float = Field(100.0, ge=1, le=3_600_000)
    cooldown_ms: float = Field(0.0, ge=0, le=3_600_000)


class PriorityClass(_Strict):
    """A class of requests, by the name of their tenant; a higher level goes first."""

    name: str = Field(min_length=1, max_length=40)
    level: int = Field(ge=-1000, le=1000)


class Priority(_Strict):
    """Whose requests go first. `ageing_ms` of waiting are worth one level more; none: strict."""

    classes: list[PriorityClass] = Field(min_length=1, max_length=64)
    ageing_ms: float | None = Field(None, ge=1, le=3_600_000)


class Policy(_Strict):
    """A whole policy. Each tier may be absent, but not all of them."""

    reservation: Reservation = Reservation()
    scaling: list[Scaling] = Field([], max_length=2)
    priority: Priority | None = None
