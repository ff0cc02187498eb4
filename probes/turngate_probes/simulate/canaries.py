"""Starts the programs that a simulated engine is offered in the ways that its contract names, as the engine would."""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from turngate import EngineContract
from turngate.contract.surroundings import Canary, SetupFile


def start_offered(contract: EngineContract, argv: Sequence[str], env: Mapping[str, str], cwd: str) -> None:
    """Start what is offered by options, and by files of the workspace unless the options of mode interactive forbid."""
    launch = contract.launch
    guards = bool(launch.interactive or launch.interactive_env)
    guarded = guards and {*launch.interactive} <= {*argv} and launch.interactive_env.items() <= env.items()
    for canary in contract.canaries:
        if not (guarded and canary.files and not canary.options) and (program := _program(canary, argv, env, cwd)):
            with suppress(OSError):
                os.waitpid(os.posix_spawn(program, (program, canary.name), env), 0)


def _program(canary: Canary, argv: Sequence[str], env: Mapping[str, str], cwd: str) -> str | None:
    """Return the program that is offered; None if something of the offer, or of what it needs, is missing."""
    wanted, files = (*canary.options, *canary.control.options), (*canary.files, *canary.control.files)
    offers = [
        *(next(_matches(template, argv), None) for template in wanted),
        *(_in_file(file, env.get("HOME", ""), cwd) for file in files),
    ]
    if None in offers:
        return None
    return next(filter(None, offers), None)


def _in_file(file: SetupFile, home: str, cwd: str) -> str | None:
    path = Path(file.path.replace("{work}", cwd).replace("{home}", home))
    try:
        return next(_matches(file.content, [path.read_text("utf-8")]), None)
    except OSError:
        return None


def _matches(template: str, texts: Sequence[str]) -> Iterator[str]:
    """Yield the program in each text that has the form of the template, empty if the template names none."""
    pattern = re.sub(r"\\\{(?:work|home)\\\}", ".+?", re.escape(template))
    pattern = pattern.replace(r"\{canary\}", "(?P<canary>/.+?)", 1).replace(r"\{canary\}", "(?P=canary)")
    for text in texts:
        if match := re.fullmatch(pattern, text, re.DOTALL):
            yield match.groupdict().get("canary", "")
