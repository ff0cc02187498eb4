"""Keeps engine processes alive over several turns, on the protocols that the engines speak."""

from turngate_reference.resident.events import (
    Gone,
    Lost,
    Opened,
    PermissionAsked,
    ResidentEvent,
    ResidentRequest,
    Said,
    TurnEnded,
)
from turngate_reference.resident.host import ResidentHost

__all__ = [
    "Gone",
    "Lost",
    "Opened",
    "PermissionAsked",
    "ResidentEvent",
    "ResidentHost",
    "ResidentRequest",
    "Said",
    "TurnEnded",
]
