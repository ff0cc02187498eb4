"""Keeps engine processes alive over several turns, on the protocols that the engines speak."""

from turngate_reference.server.sticky.events import (
    AgentText,
    Gone,
    Lost,
    Opened,
    PermissionAsked,
    StickyEvent,
    StickyRequest,
    TurnEnded,
)
from turngate_reference.server.sticky.host import StickyHost

__all__ = [
    "AgentText",
    "Gone",
    "Lost",
    "Opened",
    "PermissionAsked",
    "StickyEvent",
    "StickyHost",
    "StickyRequest",
    "TurnEnded",
]
