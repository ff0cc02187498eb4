"""Tries the options that a release no longer shows on a help page: only one that it refuses is gone.

Each is given to the release beside an option that no engine has. A parser that knows the first complains of the second
alone, so that no turn is run.
"""

import re
from collections.abc import Container, Iterable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from msgspec.structs import replace

from turngate import MachineError, ProcessRequest, Stop
from turngate.history import HIDDEN, Change, History, Kind
from turngate.process import run
from turngate_probes.releases.cache import in_use
from turngate_probes.releases.registry import Registry

NO_OPTION = "--turngate-has-no-such-option"
LIMIT = 60.0  # seconds
_COMPLAINT = re.compile(r"(?i)\b(unknown|unexpected|unrecogni[sz]ed|invalid|no such)\b.*")
_CHOICES = re.compile(r"(?:choices|possible values): \"?([\w-]+)")


def with_hidden(known: History, tested: Container[str], registry: Registry, stop: Stop) -> History:
    """Return a history in which the options were tried that are said to be gone by what was tested now.

    One that is accepted is hidden.
    """
    gone = [
        change
        for change in known.changes()
        if change.kind == Kind.OPTION and change.after is None and (change.release in tested or change.since in tested)
    ]
    for version in dict.fromkeys(change.release for change in gone):
        if version not in known.published:
            continue
        with in_use(registry.root(version)):
            executable = registry.install(version, lambda _: None, stop).executable
            accepted = [*_accepted([change for change in gone if change.release == version], executable, stop)]
        if release := known.find(version):
            facts = {section: {**names} for section, names in release.facts.items()}
            for section, name in accepted:
                facts[section][name] = HIDDEN
            known = known.with_release(replace(release, facts=facts))
    return known


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


def _accepted(changes: Iterable[Change], executable: Path, stop: Stop) -> Iterator[tuple[str, str]]:
    """Yield the section and the name of each option that the executable accepts."""
    for change in changes:
        for page in change.where:
            with TemporaryDirectory() as folder:
                env = {"HOME": folder, "PATH": f"{executable.parent}:/usr/local/bin:/usr/bin:/bin"}
                argv = argv_of(executable, page, change.subject, change.before or "")
                outcome = run(ProcessRequest(argv, Path(folder), env, timeout=LIMIT), stop=stop)
            if outcome.ended != "exit":
                raise MachineError(f"{' '.join(argv)} did not end within {LIMIT:.0f} s", "try again on a quiet machine")
            if is_accepted((outcome.stdout + outcome.stderr).decode("utf-8", "replace"), change.subject):
                yield f"{Kind.OPTION}/{page}", change.subject
