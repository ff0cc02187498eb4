"""`make chaos`: interrupts servers at every step and injects faults, and checks that nothing is lost."""

import argparse
import os
import random
import shlex
import sys
import time
import zlib
from collections import Counter
from collections.abc import Sequence

from msgspec.structs import replace

from tests.tools.chaos.plan import COUNTING, Interruption, Round, StepTarget, interrupted_at, plan
from tests.tools.chaos.rounds import RoundResult
from tests.tools.chaos.sabotage import SABOTAGES
from tests.tools.chaos.workers import Workers

ROUNDS, SHORT_ROUNDS = 1000, 40
INTERRUPTED = 130


class Rotation:
    """Plans the rounds: the first ones only count steps; then every second round is interrupted at the next step."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self.steps: dict[str, int] = {}  # with the first round that reached each
        self.visits: Counter[str] = Counter()
        self._aimed: Counter[str] = Counter()

    def draw(self, number: int) -> Round:
        """Plan a round."""
        if number < COUNTING or number % 2 or not self.steps:
            return plan(self._seed, number)
        # in a random order from the seed, so that a few rounds don't only test the start
        step = min(self.steps, key=lambda step: (self._aimed[step], zlib.crc32(f"{self._seed} {step}".encode())))
        aimed = self._aimed[step]
        self._aimed[step] += 1
        # first each step's first occurrence, with both signals; then later occurrences
        kinds: tuple[Interruption, ...] = ("SIGKILL", "SIGTERM")
        return interrupted_at(plan(self._seed, self.steps[step]), StepTarget(step, aimed // 2 + 1), kinds[aimed % 2])

    def learn(self, result: RoundResult) -> None:
        """Record the steps that a round reached."""
        for step in result.steps:
            self.steps[step] = min(result.planned.number, self.steps.get(step, result.planned.number))
        if result.visited and result.planned.target:
            self.visits[result.planned.target.step] += 1


class RoundCounts:
    """Counts rounds by fault and interruption, and prints the progress."""

    def __init__(self, rounds: int) -> None:
        self._rounds, self._start, self._is_terminal = rounds, time.monotonic(), sys.stderr.isatty()
        self.done, self.servers = 0, 0
        self.kinds: Counter[str] = Counter()
        self.broken: list[RoundResult] = []

    def add(self, result: RoundResult) -> None:
        """Count a round, and print the promises it broke."""
        planned = result.planned
        self.done += 1
        self.servers += result.servers
        self.kinds[planned.fault or "no fault"] += 1
        at = "at a step" if planned.target else "at a moment" if planned.interrupted_after else "at rest"
        self.kinds[f"{planned.interruption} {at}" if planned.interruption else "not interrupted"] += 1
        for run in planned.runs:
            self.kinds[f"engine: {run.turns[0].split()[0]}"] += 1
        self._clear()
        if result.broken:
            self.broken.append(result)
            _print_broken(result)
        elif self._is_terminal:
            left = (time.monotonic() - self._start) / self.done * (self._rounds - self.done)
            sys.stderr.write(f"{self.done} of {self._rounds} rounds, about {left:.0f} s left")
            sys.stderr.flush()

    def summary(self, rotation: Rotation) -> None:
        """Print all counts."""
        self._clear()
        seconds = time.monotonic() - self._start
        print(f"{self.done} rounds with {self.servers} servers in {seconds:.0f} s, {len(self.broken)} broken")
        for kind, count in sorted(self.kinds.items()):
            print(f"  {count:5}  {kind}")
        visited = len(rotation.visits)
        print(f"{len(rotation.steps)} steps found, {visited} of them interrupted, {rotation.visits.total()} times:")
        for step, round_number in sorted(rotation.steps.items()):
            print(f"  {rotation.visits[step]:5}  {step}" + ("" if rotation.visits[step] else f" (see {round_number})"))

    def _clear(self) -> None:
        if self._is_terminal:
            sys.stderr.write("\r\x1b[K")


def main(argv: Sequence[str]) -> int:
    """Run rounds; return 1 if one of them broke a promise."""
    given = _arguments(argv)
    rotation = Rotation(given.seed)
    numbers = [given.only] if given.only is not None else range(SHORT_ROUNDS if given.short else given.rounds)
    tally, left = RoundCounts(len(numbers)), iter(numbers)

    def draw() -> Round | None:
        if (number := next(left, None)) is None or (tally.broken and not given.keep_going):
            return None
        if given.step:
            planned = interrupted_at(plan(given.seed, number), StepTarget(given.step, given.nth), given.signal)
        else:
            planned = rotation.draw(number)
        return replace(planned, patience=given.patience)

    try:
        print(f"seed {given.seed}, {len(numbers)} rounds, {given.jobs} at the same time", flush=True)
        with Workers(min(given.jobs, len(numbers)), given.sabotage) as workers:
            for result in workers.play(draw):
                rotation.learn(result)
                tally.add(result)
    except KeyboardInterrupt:
        tally.summary(rotation)
        print("interrupted: all servers and engines were ended")
        return INTERRUPTED
    tally.summary(rotation)
    return 1 if tally.broken else 0


def _print_broken(result: RoundResult) -> None:
    planned, target = result.planned, result.planned.target
    for sentence in result.broken:
        print(f"BROKEN in round {planned.number} of seed {planned.seed}: {sentence}")
    args = f"--seed {planned.seed} --only {planned.number}"
    if target:
        args += f" --signal {planned.interruption} --nth {target.nth} --step {shlex.quote(target.step)}"
    print(f"  data and log: {result.folder}\n  again: python -m tests.tools.chaos {args}", flush=True)


def _arguments(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make chaos", description=__doc__, usage="make chaos ARGS='[OPTION...]'")
    parser.add_argument("--seed", type=int, default=random.randrange(10**6), help="what all rounds are drawn from")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="how many rounds  [default: %(default)s]")
    parser.add_argument(
        "--short", action="store_true", help=f"{SHORT_ROUNDS} rounds, to see that nothing is badly broken"
    )
    parser.add_argument("--jobs", type=int, default=3 * (os.cpu_count() or 1), help="rounds at the same time")
    parser.add_argument("--keep-going", action="store_true", help="go on after a broken round")
    parser.add_argument("--patience", type=float, default=180.0, help="seconds in which all runs must come to rest")
    parser.add_argument("--only", type=int, metavar="ROUND", help="play this round alone")
    parser.add_argument("--step", help="interrupt at this step, as the summary names it")
    parser.add_argument("--nth", type=int, default=1, help="when the step comes for the n-th time")
    parser.add_argument("--signal", choices=("SIGKILL", "SIGTERM"), default="SIGKILL", help="how --step interrupts")
    parser.add_argument("--sabotage", choices=tuple(SABOTAGES), default="", help="break the server on purpose")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
