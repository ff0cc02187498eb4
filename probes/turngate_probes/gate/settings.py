"""The settings of `turngate gate`: those of a project in `turngate.toml` or `pyproject.toml`, and the user's own.

Whoever wrote a project can be a stranger. Its settings name published releases, files within its folder, and what makes
the gate red. They never name an executable or a folder of contracts: these come only from the command line, the
environment and the user's own file.
"""

import tomllib
from collections.abc import Container, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType
from msgspec.structs import replace
from semver import Version

from turngate import ContractError, MachineError, UsageError, engine_names, load_contract
from turngate.decoding import convert
from turngate.errors import did_you_mean
from turngate.files import default_config, read_own, read_regular, real_path
from turngate_probes.releases.project_pins import loose_pins, project_pin
from turngate_probes.releases.registry import LATEST
from turngate_probes.releases.target import Target, parse_target
from turngate_probes.report import FORMATS

FILE, PYPROJECT = "turngate.toml", "pyproject.toml"
MOST_BYTES = 2**20
_Texts = Annotated[tuple[str, ...], Meta(min_length=1)]
_EXPECTED = {
    "engines": '["codex"] or ["codex@0.169.0"]',
    "in-use": '["codex@0.147.0"]',
    "fail-on": '"broken", "degraded" or "caveat"',
    "reports": '["gate.html"]',
}


class SettingsFile(Struct, frozen=True, forbid_unknown_fields=True, rename="kebab"):
    """What a file sets. A key takes what the argument or option of `turngate gate` takes."""

    engines: _Texts | UnsetType = UNSET
    in_use: _Texts | UnsetType = UNSET
    baseline: str | UnsetType = UNSET
    fail_on: Literal["broken", "degraded", "caveat"] | UnsetType = UNSET
    reports: _Texts | UnsetType = UNSET
    contracts: str | UnsetType = UNSET


class Settings(Struct, frozen=True):
    """What is set, by key, each with its place: the file, and in `pyproject.toml` the table."""

    folder: Path
    values: Mapping[str, Any]
    places: Mapping[str, str]

    def upgrades(self) -> list[tuple[str, str]]:
        """Return each newer release to test, as a caller writes it, with its place.

        Without the setting, these are the newest releases of the engines that the project pins, if any. ContractError
        or UsageError if a name is wrong.
        """
        if "engines" in self.values:
            place = self.places["engines"]
            targets = self._targets("engines")
            newest = [t if t.path or t.version else replace(t, version=LATEST) for t in targets]
            return [(str(target), place) for target in newest]
        pins = {name: project_pin(self.folder, load_contract(name)) for name in engine_names()}
        return [(f"{name}@{LATEST}", pin.place) for name, pin in pins.items() if pin]

    def nothing_named(self) -> UsageError:
        """Return why there is nothing to test, and what to do."""
        if loose := loose_pins(self.folder, map(load_contract, engine_names())):
            hint = "name the exact release there, or both here: turngate gate ENGINE --from ENGINE@VERSION"
            return UsageError(f"no release to test: {loose}", hint)
        hint = "run turngate gate ENGINE, or list `engines` in turngate.toml"
        return UsageError("no release to test: neither `engines` in settings nor a file here names one", hint)

    def in_use(self, engine: str) -> tuple[str, str] | None:
        """Return the release of an engine that is in use, with its place, None if nothing names one.

        ContractError or UsageError if a name is wrong, or the project's files differ.
        """
        for target in self._in_use():
            if target.engine == engine:
                return str(target), self.places["in-use"]
        pin = project_pin(self.folder, load_contract(engine))
        return (f"{engine}@{pin.version}", pin.place) if pin else None

    def unused(self, engines: Container[str]) -> list[str]:
        """Return the releases of `in-use` that are of none of these engines; ContractError if a name is wrong."""
        return [str(target) for target in self._in_use() if target.engine not in engines]

    def _in_use(self) -> list[Target]:
        targets = self._targets("in-use") if "in-use" in self.values else []
        for target in targets:
            if not target.path and not Version.is_valid(target.version or ""):
                what, hint = f"'{target}' is not an exact release", f"write {_EXPECTED['in-use']}"
                raise ContractError(what, self.places["in-use"], path="in-use", hint=hint)
        return targets

    def _targets(self, key: str) -> list[Target]:
        """Read the names of releases, at most one of each engine."""
        targets = [self._target(key, name) for name in self.values[key]]
        if len({target.engine for target in targets}) < len(targets):
            raise ContractError(
                "an engine is listed twice", self.places[key], path=key, hint="list one release of each"
            )
        return targets

    def _target(self, key: str, name: str) -> Target:
        """Read the name of a release, of which a caller's contract can decide whether it is an engine's."""
        try:
            return parse_target(name)
        except UsageError as wrong:
            raise ContractError(wrong.what, self.places[key], path=key, hint=wrong.hint) from None


def read_settings(folder: Path) -> Settings:
    """Read the settings of the project in a folder and the user's own, which the former override.

    ContractError if one is wrong, MachineError if a file can't be read.
    """
    own = default_config() / FILE
    values: dict[str, Any] = {}
    places: dict[str, str] = {}
    for file, found in ((own, _own(own)), *_of_project(folder)):
        for key, value in _checked(file, found, trusted=file == own).items():
            values[key], places[key] = value, str(file)
    return Settings(folder, values, places)


def _own(file: Path) -> dict[str, Any]:
    """Return the settings of the user; a file that somebody else could have written is refused."""
    if not file.exists():
        return {}
    try:
        return _parsed(file, read_own(real_path(file), MOST_BYTES))
    except ValueError as error:
        raise ContractError(str(error), str(file), hint="make it yours alone: chmod go-w") from error
    except OSError as error:
        raise MachineError(f"can't read {file}: {error.strerror}") from error


def _of_project(folder: Path) -> list[tuple[Path, dict[str, Any]]]:
    """Return the settings of a project, if it has any."""
    found = []
    for file in (folder / FILE, folder / PYPROJECT):
        if not file.exists():
            continue
        try:
            data = read_regular(file, MOST_BYTES + 1)
        except OSError as error:
            raise MachineError(f"can't read {file}: {error.strerror}") from error
        if len(data) > MOST_BYTES:
            raise ContractError(f"longer than {MOST_BYTES} bytes", str(file))
        table = _parsed(file, data)
        if file.name == PYPROJECT:
            tools = table.get("tool")
            if not isinstance(tools, dict) or "turngate" not in tools:
                continue
            table = tools["turngate"]
        found.append((file, table))
    if len(found) > 1:
        raise ContractError(f"{PYPROJECT} has settings, too", str(found[0][0]), hint="keep one of both")
    return found


def _parsed(file: Path, data: bytes) -> dict[str, Any]:
    try:
        return tomllib.loads(data.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise ContractError(f"invalid TOML: {error}", str(file)) from error


def _checked(file: Path, table: Any, *, trusted: bool) -> dict[str, Any]:
    """Check what a file sets, and return it by key with absolute paths; ContractError names the file and the key."""
    known = [field.encode_name for field in msgspec.structs.fields(SettingsFile)]
    if isinstance(table, dict):
        for key in table.keys() - {*known}:
            hint = did_you_mean(key, known, f"keys: {', '.join(known)}")
            raise ContractError("unknown key", str(file), path=_path(file, key), hint=hint)
    try:
        settings = convert(table, SettingsFile)
    except msgspec.ValidationError as wrong:
        what, _, at = str(wrong).partition(" - at `$")
        at = at.strip("`").lstrip(".")
        expected = _EXPECTED.get(at.partition("[")[0])
        hint = f"write {expected}" if expected else ""
        raise ContractError(what, str(file), path=_path(file, at), hint=hint) from None
    return {
        key: value if key in ("engines", "in-use", "fail-on") else _absolute(file, key, value, trusted=trusted)
        for key, value in _set(file, settings, trusted=trusted)
    }


def _set(file: Path, settings: SettingsFile, *, trusted: bool) -> Iterator[tuple[str, Any]]:
    """Yield the keys that are set with their values; ContractError if only the user may set one."""
    for field in msgspec.structs.fields(SettingsFile):
        key, value = field.encode_name, getattr(settings, field.name)
        if value is UNSET:
            continue
        executables = [text for text in value if "=" in text] if key in ("engines", "in-use") else []
        if not trusted and (key == "contracts" or executables):
            subject = f"the executable {executables[0]!r}" if executables else "a folder of contracts"
            flag = "as an argument" if executables else "with --contracts"
            hint = f"pass it {flag}, or set it in {default_config() / FILE}"
            raise ContractError(f"a project can't choose {subject}", str(file), path=_path(file, key), hint=hint)
        yield key, value


def _absolute(file: Path, key: str, value: Any, *, trusted: bool) -> Any:
    """Return paths as absolute ones; ContractError if one can't be used, or leads out of the folder of a project."""
    at = _path(file, key)
    if not isinstance(value, str):
        paths = [_absolute(file, key, text, trusted=trusted) for text in value]
        if len({*paths}) < len(paths):
            raise ContractError("a file is listed twice", str(file), path=at, hint="list each file once")
        return paths
    try:
        path = real_path(file.parent / (Path(value).expanduser() if trusted else Path(value)))
        inside = real_path(file.parent) in path.parents
        exists = path.is_dir() if key == "contracts" else path.is_file()
    except (OSError, ValueError) as error:
        raise ContractError(f"{value!r} isn't a valid path: {error}", str(file), path=at) from None
    if not trusted and not inside:
        raise ContractError(f"{value!r} is outside {file.parent}", str(file), path=at, hint="use a path inside it")
    if key == "reports" and path.suffix.lower() not in FORMATS:
        raise ContractError(f"{value!r} has an unknown suffix", str(file), path=at, hint=f"use {', '.join(FORMATS)}")
    if key != "reports" and not exists:
        raise ContractError(f"{path} doesn't exist", str(file), path=at)
    return str(path)


def _path(file: Path, key: str) -> str:
    """Name a key as in the file."""
    return ".".join(filter(None, ("tool.turngate" if file.name == PYPROJECT else "", key)))
