"""The hooks that a client registers, which the engine runs on its events."""

import re
from collections.abc import Callable, Iterator

from msgspec import Struct

from turngate_probes.simulate.sticky.inbox import Message

ASK, DENY = "ask", "deny"


class Verdict(Struct, frozen=True):
    """What hooks decide about a tool call: `allow`, `deny` or `ask`; None leaves it open."""

    decision: str | None = None
    reason: str = ""


class Hooks:
    """Hooks by event, as a client registers them; `call` runs the one of an id and returns what it says."""

    def __init__(self, call: Callable[[str, Message], Message]) -> None:
        self.registered: Message = {}
        self._call = call

    def run(self, name: str, event: Message, tool: str = "") -> Verdict:
        """Run the hooks of an event that match a tool, and return the first decision."""
        verdict = Verdict()
        for callback in self._matching(name, tool):
            said = _verdict(self._call(callback, event))
            verdict = verdict if verdict.decision else said
        return verdict

    def _matching(self, name: str, tool: str) -> Iterator[str]:
        for matcher in self.registered.get(name) or ():
            pattern = matcher.get("matcher")
            if not pattern or pattern == "*" or re.fullmatch(pattern, tool):
                yield from matcher.get("hookCallbackIds") or ()


def _verdict(said: Message) -> Verdict:
    """Read a decision about a tool, or the older form that blocks."""
    specific = said.get("hookSpecificOutput")
    if isinstance(specific, dict) and specific.get("permissionDecision"):
        return Verdict(specific["permissionDecision"], specific.get("permissionDecisionReason") or "")
    if said.get("decision") == "block":
        return Verdict(DENY, said.get("reason") or "")
    return Verdict()
