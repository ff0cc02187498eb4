"""Describes a call by its arguments, its environment, and its standard input."""

import os
import stat
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from msgspec.structs import replace

from turngate import EngineContract
from turngate.argv.auto_flags import auto_flags_in
from turngate.argv.build import unguarded
from turngate.argv.file_slot import as_in_contract
from turngate_probes.conform.calls import Started
from turngate_probes.simulate import arguments
from turngate_probes.simulate.command_line import UsageProblem
from turngate_probes.simulate.printing import simulation
from turngate_probes.simulate.sticky.start import starts_sticky

_KINDS = ((stat.S_ISFIFO, "pipe"), (stat.S_ISREG, "file"), (stat.S_ISSOCK, "socket"), (stat.S_ISCHR, "device"))


def described(contract: EngineContract, argv: tuple[str, ...], env: Mapping[str, str], newest: str | None) -> Started:
    """Return what is known of a call at its start; `newest` is the id of the latest session in the directory."""
    start = Started(
        os.getpid(), argv, str(Path.cwd()), tuple(sorted(env)), _stdin(), time.monotonic(), kind="query"
    )  # fmt: skip
    questions = [contract.version_query.argv, *(page.argv for page in contract.help.pages)]
    asking = contract.sticky.interactive
    if argv in questions or (asking and asking.query and argv == asking.query.argv):
        return start
    if starts_sticky(contract, argv):
        return replace(start, kind="process", widening=_widening(argv, contract))
    latest = tuple(token for token in argv if token in contract.launch.latest)
    try:
        asked = arguments.read(unguarded(contract), named(contract, argv, newest))
    except UsageProblem as problem:
        before = argv[: argv.index("--")] if "--" in argv else argv
        return replace(start, kind="refused", problem=str(problem), widening=_widening(before, contract))
    chosen = asked.line.last(simulation(contract).arguments.working_directory)
    tokens = tuple(token for token in argv if token != asked.prompt)
    widening = _widening(tokens, contract)
    return replace(
        start, kind="turn", cwd=str(Path(start.cwd, chosen or "")), resumed=asked.handle, prompt=asked.prompt,
        latest=" ".join(latest), widening=widening,
    )  # fmt: skip


def named(contract: EngineContract, argv: Sequence[str], newest: str | None) -> tuple[str, ...]:
    """Return the arguments with the id of the latest session in place of the option that asks for it."""
    tokens: list[str] = []
    for at, token in enumerate(argv):
        replaced = contract.launch.latest.get(token, (token,)) if "--" not in argv[:at] else (token,)
        tokens += [part.replace("{handle}", newest or contract.handle.nonexistent_id) for part in replaced]
    return tuple(tokens)


def _widening(tokens: tuple[str, ...], contract: EngineContract) -> tuple[str, ...]:
    return auto_flags_in(as_in_contract(tokens, contract), contract)


def _stdin() -> str:
    try:
        mode = os.fstat(0).st_mode
    except OSError:
        return "closed"
    if stat.S_ISCHR(mode):
        return "terminal" if os.isatty(0) else "null"
    return next((name for test, name in _KINDS if test(mode)), "other")
