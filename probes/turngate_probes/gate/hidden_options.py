"""Tries the options that a release no longer shows on a help page: only one that it refuses is gone.

Each is given to the release beside an option that no engine has. A parser that knows the first complains of the second
alone, so that no turn is run.
"""

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory

from turngate import MachineError, NotInstalledError, ProcessRequest, Stop
from turngate.process.execution import run
from turngate_probes.journal.events import Event, PageEvent

NO_OPTION = "--turngate-has-no-such-option"
LIMIT = 60.0  # seconds
MOST = 200
NOT_STARTED = (126, 127)  # of a shell or env, whose program can't be run or isn't there
_COMPLAINT = re.compile(r"(?i)\b(unknown|unexpected|unrecogni[sz]ed|invalid|no such)\b.*")
_CHOICES = re.compile(r"(?:choices|possible values): \"?([\w-]+)")


def hidden_options(old: Iterable[Event], new: Iterable[Event], executable: Path, stop: Stop) -> frozenset[str] | None:
    """Return the options that help pages of the older release show and those of the newer don't, but that it accepts.

    If one of them does not end, the others are not tried, since they may take as long. None: it could not be started.
    """
    before, after, found = _options(old), _options(new), set[str]()
    pages = ((page, *option) for page, options in before.items() for option in options.items() if page in after)
    try:
        for page, name, takes in islice((each for each in pages if each[1] not in after[each[0]]), MOST):
            if accepts(executable, page, name, takes, stop):
                found.add(name)
    except NotInstalledError:
        return None
    except MachineError:
        pass
    return frozenset(found)


def accepts(executable: Path, page: str, option: str, takes: str, stop: Stop) -> bool:
    """Whether an executable accepts an option on a page such as `codex exec --help`.

    MachineError: it does not end; NotInstalledError: something that it needs is not here.
    """
    with TemporaryDirectory() as folder:
        # no LANG, because complaints are read
        env = {"HOME": folder, "PATH": os.environ.get("PATH", os.defpath)}
        argv = argv_of(executable, page, option, takes)
        outcome = run(ProcessRequest(argv, Path(folder), env, timeout=LIMIT), stop=stop)
    if outcome.ended != "exit":
        raise MachineError(f"{' '.join(argv)} did not end within {LIMIT:.0f} s", "try again on a quiet machine")
    if outcome.exit_code in NOT_STARTED:
        raise NotInstalledError(f"{executable} can't be started: exit code {outcome.exit_code}")
    return is_accepted((outcome.stdout + outcome.stderr).decode("utf-8", "replace"), option)


def is_accepted(output: str, option: str) -> bool:
    """Whether what an engine printed complains of the option that it doesn't have, and not of this one."""
    complaints = [match[0] for match in map(_COMPLAINT.search, output.splitlines()) if match]
    names = re.compile(rf"(?<![\w-])(?:--)?{re.escape(option.removeprefix('--'))}(?![\w-])")
    return any(NO_OPTION[2:] in line for line in complaints) and not any(map(names.search, complaints))


def argv_of(executable: Path, page: str, option: str, takes: str) -> tuple[str, ...]:
    """Return a command line with an option of a help page, such as `codex exec --help`."""
    command = [word for word in page.split()[1:] if not word.startswith("-")]
    choice = _CHOICES.search(takes)
    value = [] if takes in ("", "[boolean]") else [choice[1] if choice else "1"]
    return str(executable), *command, option, *value, NO_OPTION


def _options(events: Iterable[Event]) -> Mapping[str, Mapping[str, str]]:
    """Return the options that each help page names, each with the value that it takes, as far as the page says."""
    pages = (event for event in events if isinstance(event, PageEvent) and event.step.startswith("help"))
    return {
        " ".join(page.argv): {name: "" for name in page.names or () if name.startswith("--")}
        | dict(_split(page.options))
        for page in pages
        if page.options
    }


def _split(options: Iterable[str]) -> Iterator[tuple[str, str]]:
    for option in options:
        name, _, takes = option.partition(" ")
        yield name, takes
