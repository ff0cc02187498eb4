"""`make soak`: loads the reference server for half an hour, and checks that its resource usage doesn't grow."""

import argparse
import random
import signal
import sys
from collections.abc import Sequence
from functools import partial

from tests.tools.soak.flatness import MB, growths
from tests.tools.soak.soak import Load, Outcome, soak

LINE = 60.0  # seconds between progress lines if the output is no terminal


def main(argv: Sequence[str]) -> int:
    """Run a soak; return 0 if it was flat and without errors, 1 if not, 130 if interrupted."""
    parser = argparse.ArgumentParser(prog="make soak", description=__doc__, usage="make soak ARGS='[OPTION]...'")
    parser.add_argument("--minutes", type=_minutes, default=30, help="how long, 1 or more  [default: 30]")
    parser.add_argument("--clients", type=_clients, default=50, help="clients at the same time  [default: 50]")
    parser.add_argument("--seed", type=int, help="repeats what the clients of another soak chose  [default: random]")
    given = parser.parse_args(argv)
    seed = given.seed if given.seed is not None else random.randrange(10**6)
    load = Load(given.minutes * 60, given.clients, seed)
    print(f"soak: --minutes {given.minutes:g} --clients {load.clients} --seed {load.seed}", flush=True)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)
    return report(soak(load, Progress(load).show))


class Progress:
    """Prints a soak's progress: one updated line on a terminal, else one line a minute."""

    def __init__(self, load: Load) -> None:
        self._load, self._next = load, 0.0

    def show(self, passed: float, outcome: Outcome) -> None:
        """Print the progress if it is time."""
        terminal = sys.stderr.isatty()
        if not terminal and passed < self._next:
            return
        self._next += LINE
        now, figures = outcome.samples[-1], outcome.figures
        text = (
            f"{_clock(passed)} of {_clock(self._load.seconds)}: {figures.runs} runs finished, "
            f"{figures.errors.total()} errors, {now.memory / MB:.0f} MB, {now.files} descriptors, {now.threads} threads"
        )
        print(f"\r\033[K{text}" if terminal else text, end="" if terminal else "\n", file=sys.stderr, flush=True)


def report(outcome: Outcome) -> int:
    """Print the result of a soak; return its exit code."""
    if sys.stderr.isatty():
        print(file=sys.stderr)
    say = partial(print, flush=True)
    for line in outcome.figures.lines():
        say(line)
    if outcome.interrupted:
        say("interrupted: memory, descriptors and threads were not judged")
        return 130
    changes = growths(outcome.samples)
    say("medians of the second and of the last quarter:")
    for change in changes:
        say(f"  {change}")
    say(f"held after the last run: {outcome.left or 'nothing'}")
    good = all(change.flat for change in changes) and not outcome.figures.errors and not outcome.left
    say("passed" if good else "failed")
    return 0 if good else 1


def _minutes(text: str) -> float:
    """Parse a duration that is long enough to judge; ArgumentTypeError otherwise."""
    value = float(text)
    if not 1 <= value < float("inf"):
        raise argparse.ArgumentTypeError("it takes 1 minute or more to see that memory stays flat")
    return value


def _clients(text: str) -> int:
    """Parse the number of clients; ArgumentTypeError if the server has too few streams for them."""
    value = int(text)
    if not 1 <= value <= 500:
        raise argparse.ArgumentTypeError("1 to 500, as many as the server has event streams for")
    return value


def _clock(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
