"""Keeps engine processes alive over several turns, on the protocols that the engines speak."""

from turngate_reference.server.sticky.events import (
    Gone,
    Lost,
    Opened,
    PermissionAsked,
    ResidentEvent,
    ResidentRequest,
    Said,
    TurnEnded,
)
from turngate_reference.server.sticky.host import ResidentHost

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
