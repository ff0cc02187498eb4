"""The CPU time of commands, which depends less on other work on the machine than their wall time does."""

import os
import resource
import subprocess
from collections.abc import Mapping, Sequence


def cpu_times(
    commands: Mapping[str, Sequence[str]], runs: int, env: Mapping[str, str] = os.environ
) -> dict[str, list[float]]:
    """Run the commands alternately, each `runs` times; return their user and system times in milliseconds."""
    # a checkout would otherwise be compiled in each run, unlike an installation
    env = {name: value for name, value in env.items() if name != "PYTHONDONTWRITEBYTECODE"}
    times: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(runs):
        for name, argv in commands.items():
            before = _of_children()
            subprocess.run(argv, env=env, check=True, capture_output=True, stdin=subprocess.DEVNULL)
            times[name].append((_of_children() - before) * 1000)
    return times


def _of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
