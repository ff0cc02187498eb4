"""What kept something from being seen: whose doing it was decides what its clauses come to."""

from dataclasses import dataclass

from turngate.clauses import Reason
from turngate.errors import ContractError, EnvironmentFailed, RefusedError


@dataclass(frozen=True, slots=True)
class Obstacle:
    """What stood in the way, in words: a `reason` in the environment, or the engine; neither means turngate itself."""

    text: str
    reason: Reason | None = None
    by_engine: bool = False


class ObstacleError(Exception):
    """Something stands in the way; the fields are those of an `Obstacle`."""

    def __init__(self, text: str, reason: Reason | None = None, *, by_engine: bool = False) -> None:
        super().__init__(text)
        self.obstacle = Obstacle(text, reason, by_engine)


def obstacle_of(error: Exception) -> Obstacle:
    """Say what an error stands for."""
    if isinstance(error, ObstacleError):
        return error.obstacle
    if isinstance(error, EnvironmentFailed):
        return Obstacle(str(error), Reason.MACHINE)
    return Obstacle(str(error), Reason.CONTRACT if isinstance(error, (ContractError, RefusedError)) else None)
