"""The plan of a round, drawn from the seed: its runs, its faults, and how the server is interrupted."""

import random
from collections.abc import Iterator
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

COUNTING = 3  # the first rounds only count steps
SHORT, LONG = 2.0, 15.0  # seconds for which the database is locked; one lock in eight is long

Profile = Literal["resumable", "sticky_process"]
Cancel = Literal["", "queued", "running", "waiting_user"]
Fault = Literal["", "locked database", "full disk", "no descriptors", "clock ahead", "clock back"]
Interruption = Literal["", "SIGKILL", "SIGTERM"]

FAULTS: tuple[Fault, ...] = ("locked database", "full disk", "no descriptors", "clock ahead", "clock back")
HOSTILE = ("stubborn", "fork", "vanish", "flood", "deaf", "hang", "exit 3")
_NEVER_END = ("stubborn", "deaf", "hang")
ASKED = 1200
_FAULTS = {
    "stubborn": "ignores-termination hang=before",
    "hang": "hang=before",
    "exit": "dies-in-turn omits-end exit-code=3",
    "fork": "child=orphan",
    "vanish": "child=hidden",
    "flood": "stderr-bytes=4194304 prints-noise",
}


class PlannedRun(Struct, frozen=True):
    """A run to create: what its engine does on each turn, and what its caller does.

    The last of `turns` ends the run; the others ask. `state` and `code` are what it comes to if nothing interrupts it.
    `left` runs are replied to only when a later server has started, or all else is done.
    """

    name: str
    turns: tuple[str, ...]
    state: str
    code: str = ""
    profile: Profile | None = None
    model: str | None = None
    timeout: int = ASKED
    cancel: Cancel = ""
    left: bool = False
    again: bool = False

    def token(self, turn: int) -> str:
        """Return the text that identifies a turn's prompt; turns count from 1."""
        return f"token: {self.name}-{turn}."

    def prompt(self, turn: int) -> str:
        """Return the text that turngate gives to the engine on a turn."""
        # text that doesn't fit into a pipe blocks a writer if the engine never reads
        filler = "x" * 2**18 if self.model == "deaf" else ""
        word, _, text = self.turns[turn - 1].partition(" ")
        does = "act" if word == "act" else "say"
        return f"{self.token(turn)}\n{filler}\ndo: {does} {text}\nfault: {_FAULTS.get(word, '')}"


class StepTarget(Struct, frozen=True):
    """A step at which the server is interrupted, when it comes to it for the n-th time."""

    step: str
    nth: int = 1


class Round(Struct, frozen=True):
    """One round; moments are in seconds after the server is ready. In `patience` seconds all runs must be at rest."""

    seed: int
    number: int
    runs: tuple[PlannedRun, ...]
    slots: int
    fault: Fault = ""
    fault_after: float = 0.0
    fault_lasts: float = 0.0
    interruption: Interruption = ""
    interrupted_after: float | None = None
    target: StepTarget | None = None
    patience: float = 180.0


def plan(seed: int, number: int) -> Round:
    """Plan a round from the seed."""
    draw = random.Random(f"{seed}/{number}")
    if number < COUNTING:
        return Round(seed, number, tuple(_every(number)), slots=3)
    fault = draw.choice(FAULTS) if draw.random() < 0.5 else ""
    interruption: Interruption = draw.choice(("SIGKILL", "SIGKILL", "SIGTERM", "" if fault else "SIGKILL"))
    runs = [_drawn(draw, f"r{index}") for index in range(draw.randint(2, 4))]
    hostile = HOSTILE[number % len(HOSTILE)]
    if not (hostile == "vanish" and interruption == "SIGKILL"):
        profiles: tuple[Profile | None, ...] = (None, "resumable", "sticky_process")
        profile = draw.choice(profiles)
        runs.append(_misbehaving("bad", hostile, "resumable" if hostile == "deaf" else profile))
    lasts = draw.uniform(0.2, 0.8)
    if fault == "locked database":
        lasts = LONG if draw.random() < 1 / 8 else draw.uniform(0.5, SHORT)
    return Round(
        seed,
        number,
        tuple(runs),
        _slots(draw, runs),
        fault,
        draw.uniform(0, 0.4),
        lasts,
        interruption,
        draw.uniform(0, 1.2) if interruption and draw.random() < 0.8 else None,
    )


def interrupted_at(planned: Round, target: StepTarget, interruption: Interruption) -> Round:
    """Return the round, interrupted at a step instead of at its own time."""
    return replace(planned, target=target, interruption=interruption, interrupted_after=None)


def _every(number: int) -> Iterator[PlannedRun]:
    """Plan a run of each kind; the counting rounds differ in which engines misbehave."""
    for profile in ("resumable", "sticky_process"):
        yield _asking(f"{profile[0]}-ask", profile, 1)
        yield _asking(f"{profile[0]}-left", profile, 1, left=True)
        yield replace(_asking(f"{profile[0]}-waits", profile, 1), cancel="waiting_user", state="canceled")
    yield _asking("permission", "sticky_process", 0, permission=True)
    yield _auto("auto")
    yield replace(_misbehaving("running", "hang", None), cancel="running", state="canceled", code="", timeout=ASKED)
    yield _misbehaving("bad", ("exit 3", "fork", "flood")[number], None)
    yield replace(_auto("queued"), cancel="queued", state="canceled")


def _drawn(draw: random.Random, name: str) -> PlannedRun:
    profile: Profile = draw.choice(("resumable", "sticky_process"))
    cancel: Cancel = draw.choice(("queued", "running", "waiting_user"))
    planned = draw.choice(
        (
            _auto(name),
            _asking(name, profile, draw.randint(1, 2)),
            _asking(name, profile, 1, left=True),
            _asking(name, "sticky_process", draw.randint(0, 1), permission=True),
            replace(_asking(name, profile, 1), cancel=cancel, state="canceled"),
        )
    )
    return replace(planned, again=draw.random() < 0.5)


def _slots(draw: random.Random, runs: list[PlannedRun]) -> int:
    """Draw the number of slots: more than the runs that may keep a process for a late reply."""
    return draw.randint(1, 2) + sum(run.left for run in runs)


def _auto(name: str) -> PlannedRun:
    return PlannedRun(name, (_final(name),), "succeeded")


def _asking(name: str, profile: Profile, questions: int, *, left: bool = False, permission: bool = False) -> PlannedRun:
    asks = tuple(
        'say {"outcome": "ask_user", "interaction": {"kind": "open_text", "prompt": "'
        f'{name} {number}", "options": [], "required_fields": [], "context": {{}}}}}}'
        for number in range(questions)
    )
    last = _final(name)
    return PlannedRun(
        name, (*asks, last.replace("say", "act", 1) if permission else last), "succeeded", profile=profile, left=left
    )


def _misbehaving(name: str, how: str, profile: Profile | None) -> PlannedRun:
    """Plan a run whose engine misbehaves as one of `HOSTILE`; without a profile in mode auto."""
    if how in _NEVER_END:
        # if its process becomes sticky, it has already read the prompt, and hangs
        model = "deaf" if how == "deaf" else None
        return PlannedRun(name, ("hang" if model else how,), "failed", "TURN_TIMEOUT", profile, model, timeout=1)
    if how == "exit 3":
        return PlannedRun(name, (how,), "failed", "ENGINE_FAILED", profile)
    return PlannedRun(name, (_final(name).replace("say", how, 1),), "succeeded", profile=profile)


def _final(name: str) -> str:
    return f'say {{"outcome": "final", "final_data": {{"name": "{name}"}}}}'
