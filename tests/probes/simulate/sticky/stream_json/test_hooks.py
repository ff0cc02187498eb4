import pytest

from turngate_probes.simulate.sticky.message_queue import Message
from turngate_probes.simulate.sticky.stream_json import HookDecision, Hooks

DENIES = {"hookSpecificOutput": {"permissionDecision": "deny", "permissionDecisionReason": "not here"}}


def _hooks(matcher: str | None, *said: Message) -> tuple[Hooks, list[str]]:
    called: list[str] = []
    answers = iter(said)

    def call(callback: str, _: Message) -> Message:
        called.append(callback)
        return next(answers)

    hooks = Hooks(call)
    numbers = [f"hook_{number}" for number in range(len(said))]
    hooks.registered = {"PreToolUse": [{"matcher": matcher, "hookCallbackIds": numbers}]}
    return hooks, called


@pytest.mark.parametrize(
    "said, verdict",
    [
        ({}, HookDecision()),
        (DENIES, HookDecision("deny", "not here")),
        ({"hookSpecificOutput": {"permissionDecision": "allow"}}, HookDecision("allow")),
        ({"decision": "block", "reason": "never"}, HookDecision("deny", "never")),
    ],
)
def test_a_hook_decides(said: Message, verdict: HookDecision) -> None:
    """A hook allows, denies or leaves the decision open, in either form."""
    hooks, _ = _hooks("Write|Edit", said)
    assert hooks.run("PreToolUse", {}, "Write") == verdict


def test_the_first_decision_counts_and_every_hook_runs() -> None:
    """All matching hooks run, in the order of their registration."""
    hooks, called = _hooks(None, {}, DENIES, {"decision": "block"})
    assert hooks.run("PreToolUse", {}, "Write") == HookDecision("deny", "not here")
    assert called == ["hook_0", "hook_1", "hook_2"]


@pytest.mark.parametrize("name, tool", [("PreToolUse", "Bash"), ("Stop", "Write")])
def test_other_tools_and_events_run_no_hook(name: str, tool: str) -> None:
    """Neither an event without hooks nor a tool that doesn't match runs one."""
    hooks, called = _hooks("Write", DENIES)
    assert hooks.run(name, {}, tool) == HookDecision()
    assert called == []
