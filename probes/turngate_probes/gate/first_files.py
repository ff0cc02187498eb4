"""The files with which a project begins to gate its upgrades: settings, and a job for the CI that it has."""

import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from importlib import metadata
from pathlib import Path

from msgspec import Struct

from turngate import UsageError, engine_names, load_contract
from turngate_probes.gate.settings import FILE, PYPROJECT, read_settings
from turngate_probes.releases.project_pins import ProjectPin, project_pin
from turngate_probes.releases.source import not_installed

UNKNOWN_SOURCE = "git+https://GIT_HOST/OWNER/turngate@COMMIT"
_GITHUB, _GITLAB = ".github", ".gitlab-ci.yml"
_TEMPLATES = Path(__file__).with_name("workflows")
_SETTINGS = """\
# What `turngate gate` tests: whether you can upgrade to the newest release of these engines.
engines = [{engines}]
reports = ["gate.html"]
{in_use}
"""
_PINNED = "# The release of {engine} in use is the one that {file} pins."
_NOT_PINNED = """\
# The files of this folder itself don't pin one release of {engine}. Name the one in use here, or the gate compares
# with the release that turngate pins. `turngate doctor` finds pins in the folders below, too.
# in-use = ["{engine}@VERSION"]"""


class FirstFile(Struct, frozen=True):
    """A file to write, its path below the project's folder, and what the user must do beside (empty: nothing)."""

    path: Path
    text: str
    then: str = ""


def engines_of(folder: Path) -> list[str]:
    """Return the engines that a project pins, else those that are installed; ContractError if its files differ."""
    pinned = [name for name in engine_names() if project_pin(folder, load_contract(name))]
    return pinned or [name for name in engine_names() if not not_installed(name)]


def first_files(folder: Path, engines: Sequence[str], source: str) -> Iterator[FirstFile]:
    """Return the files that a project lacks; ContractError if its settings are wrong, MachineError if unreadable.

    `source` is what pip installs turngate from.
    """
    if not has_settings(folder):
        listed = ", ".join(json.dumps(engine) for engine in engines)
        yield FirstFile(Path(FILE), _SETTINGS.format(engines=listed, in_use="\n".join(_in_use(folder, engines))))
    if (folder / _GITHUB).is_dir():
        yield from _job(folder, "github.yml", ".github/workflows/turngate.yml", source)
    if (folder / _GITLAB).is_file():
        path = ".gitlab/turngate.yml"
        yield from _job(folder, "gitlab.yml", path, source, f"add to {_GITLAB}: include: [{{local: {path}}}]")


def _in_use(folder: Path, engines: Sequence[str]) -> Iterator[str]:
    """Say which of the engines a file pins, and how to name the release of the first of the others."""
    pins = {engine: _pin(folder, engine) for engine in engines}
    yield from (_PINNED.format(engine=name, file=pin.place.rpartition(":")[0]) for name, pin in pins.items() if pin)
    yield from [_NOT_PINNED.format(engine=name) for name, pin in pins.items() if not pin][:1]


def _pin(folder: Path, engine: str) -> ProjectPin | None:
    with suppress(UsageError):  # the files differ
        return project_pin(folder, load_contract(engine))
    return None


def has_settings(folder: Path) -> bool:
    """Tell whether a project has settings; ContractError if they are wrong, MachineError if unreadable."""
    own = {str(folder / name) for name in (FILE, PYPROJECT)}
    return (folder / FILE).exists() or not own.isdisjoint(read_settings(folder).places.values())


def has_known_ci(folder: Path) -> bool:
    """Tell whether a project has a CI for which `first_files` has a job."""
    return (folder / _GITHUB).is_dir() or (folder / _GITLAB).is_file()


def source_of_turngate() -> str:
    """Return from where pip installs this turngate elsewhere; `UNKNOWN_SOURCE` if it came from a folder or a file."""
    installed = metadata.distribution("turngate")
    origin = json.loads(installed.read_text("direct_url.json") or "null")
    if origin is None:
        return f"turngate=={installed.version}"
    commit = origin.get("vcs_info", {})
    if commit.get("vcs") != "git" or not commit.get("commit_id"):
        return UNKNOWN_SOURCE
    return f"git+{origin['url']}@{commit['commit_id']}"


def _job(folder: Path, template: str, path: str, source: str, then: str = "") -> Iterator[FirstFile]:
    if not (folder / path).exists():
        text = (_TEMPLATES / template).read_text("utf-8").replace("{source}", json.dumps(source))
        unset = f"set TURNGATE in {path} to the place that you get turngate from" if source == UNKNOWN_SOURCE else ""
        yield FirstFile(Path(path), text, "; ".join(filter(None, (then, unset))))
