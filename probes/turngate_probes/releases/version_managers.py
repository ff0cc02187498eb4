"""Says which release the shim of a version manager would run in a folder: of mise, asdf, volta, nodenv and pyenv.

Such a shim stands on PATH under the name of an engine, and picks the release by files in the folder that it runs in and
in those above it, then by files of the user. These are read, and so is the package that the manager has installed.
Nothing is run: whoever wrote a project would choose the program.
"""

import os
import re
import tomllib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from msgspec import Struct

from turngate import EngineContract
from turngate.decoding import decode
from turngate.files import read_regular
from turngate.process.installed_release import package_version
from turngate_probes.releases.engine_names import tool_names

_LONGEST = 2**20
_SHIM = re.compile(rb"""exec ["']?[^\s"']*?\b(asdf|nodenv|pyenv)["']? exec """)
_PLUGIN = re.compile(rb"(?m)^# asdf-plugin: (\S+)")
_BINARIES = {"mise": "mise", "rtx": "mise", "volta-shim": "volta"}
_NODE = frozenset({"node", "nodejs"})
_RUNTIMES = _NODE | {"python"}
_MISE = (
    "mise.local.toml",
    "mise.toml",
    ".mise.local.toml",
    ".mise.toml",
    "mise/config.toml",
    ".mise/config.toml",
    ".config/mise.toml",
    ".config/mise/config.toml",
    ".tool-versions",
)
# of other managers, read by mise and asdf only if the user says so
_OF_OTHERS = {".nvmrc": _NODE, ".node-version": _NODE, ".python-version": frozenset({"python"})}
_PINNED_IN = {
    "mise": (*_MISE, *_OF_OTHERS),
    "asdf": (".tool-versions", *_OF_OTHERS),
    "nodenv": (".node-version",),
    "pyenv": (".python-version",),
}
_SOURCE = re.compile(r"^\w+:|\[.*\]$")
_RELEASE = re.compile(r"\d+\.\d+\.\d+(?:[-+][0-9A-Za-z.+-]+)?")
_INSTALLED = re.compile(r"\w[\w.+-]*")


class Choice(Struct, frozen=True):
    """What a shim would run: `version`, or why that is unknown; `place` is the `file:line` that decides."""

    manager: str
    place: str
    version: str | None = None
    problem: str = ""


class _Pin(Struct, frozen=True):
    tool: str
    spec: str
    place: str


class _UserBin(Struct, frozen=True):
    version: str


class _Manifest(Struct, frozen=True):
    dependencies: dict[str, Any] = {}
    devDependencies: dict[str, Any] = {}  # noqa: N815 - npm's name


def manager_of(executable: Path) -> str | None:
    """Return the version manager of a shim, empty if it is none of those above; None if it doesn't look like a shim."""
    real = Path(os.path.realpath(executable))
    if known := _BINARIES.get(real.name):
        return known
    if found := _SHIM.search(_start(executable)):
        return found[1].decode()
    return "" if executable.parent.name == "shims" or "shim" in real.name else None


def chosen(manager: str, executable: Path, contract: EngineContract, folder: Path) -> Choice | None:
    """Return what a shim would run in a folder; None if no file there, above it or of the user decides."""
    root = executable.parent.parent
    if manager == "volta":
        return _by_volta(root, contract, folder)
    wanted, pins = _wanted(manager, executable, contract), dict[str, _Pin]()
    for pin in _pins(manager, root, folder, wanted):
        if pin.tool in wanted:
            pins.setdefault("node" if pin.tool == "nodejs" else pin.tool, pin)
    # the engine's own pin counts before those of runtimes, into which it can be installed, too
    ordered = sorted(pins.values(), key=lambda pin: pin.tool in _RUNTIMES)
    for pin in ordered:
        if version := _release_of(manager, root, pin, contract):
            return Choice(manager, pin.place, version)
        if pin.tool not in _RUNTIMES:
            break
    if not ordered:
        return None
    pin = ordered[0]
    why = f"it is a shim of {manager}, and no release is known for `{pin.tool} {pin.spec}` in {pin.place}"
    return Choice(manager, pin.place, problem=why)


def _start(executable: Path) -> bytes:
    with suppress(OSError):
        start = read_regular(executable, 4096)
        return start if start.startswith(b"#!") else b""
    return b""


def _wanted(manager: str, executable: Path, contract: EngineContract) -> frozenset[str]:
    """Return the tools whose version decides, as a manager names them without their source."""
    if manager == "asdf" and (plugins := _PLUGIN.findall(_start(executable))):
        return frozenset(plugin.decode() for plugin in plugins)
    if runtime := {"nodenv": "node", "pyenv": "python"}.get(manager):
        return frozenset({runtime})
    return _RUNTIMES | tool_names(contract) | contract.packages


def _pins(manager: str, root: Path, folder: Path, wanted: frozenset[str]) -> Iterator[_Pin]:
    """Yield what decides, by precedence: variables, files of the folder, of those above it, and of the user."""
    if manager in ("nodenv", "pyenv"):
        if spec := os.environ.get(variable := f"{manager.upper()}_VERSION"):
            yield _Pin(min(wanted), spec, f"${variable}")
    else:
        for tool in sorted(wanted):
            variable = f"{manager}_{tool}_version".upper().replace("-", "_")
            if spec := os.environ.get(variable):
                yield _Pin(tool, spec, f"${variable}")
    for place in (folder, *folder.parents):
        for name in _PINNED_IN[manager]:
            yield from _in_file(place / name, wanted, unsure=manager in ("mise", "asdf") and name in _OF_OTHERS)
    for file in _of_user(manager, root):
        yield from _in_file(file, wanted)


def _of_user(manager: str, root: Path) -> Iterator[Path]:
    """Yield the files of the user that decide where no folder does."""
    with suppress(RuntimeError):  # there is no home
        home = Path.home()
        if manager in ("mise", "asdf"):
            yield home / ".tool-versions"
        if manager == "mise":
            yield Path(os.environ.get("MISE_CONFIG_DIR") or home / ".config/mise", "config.toml")
    if manager in ("nodenv", "pyenv"):
        yield root / "version"


def _in_file(file: Path, wanted: frozenset[str], *, unsure: bool = False) -> Iterator[_Pin]:
    """Yield the tools that a file pins; one with a version alone pins a runtime.

    `unsure` says that nobody knows whether the manager reads the file.
    """
    try:
        text = read_regular(file, _LONGEST).decode("utf-8", "replace")
    except (OSError, ValueError):
        return
    if file.suffix == ".toml":
        yield from _in_toml(file, text, wanted)
        return
    for number, line in enumerate(text.splitlines(), 1):
        words = line.partition("#")[0].split()
        if file.name == ".tool-versions" and len(words) > 1:
            yield _Pin(_tool(words[0]), words[1], f"{file}:{number}")
        elif file.name != ".tool-versions" and words:
            if runtimes := _RUNTIMES & wanted & _OF_OTHERS.get(file.name, wanted):
                spec = f"{words[0]}, if it reads such files" if unsure else words[0]
                yield _Pin(min(runtimes), spec, f"{file}:{number}")
            return


def _in_toml(file: Path, text: str, wanted: frozenset[str]) -> Iterator[_Pin]:
    try:
        tools = tomllib.loads(text).get("tools")
    except (ValueError, RecursionError):
        # nobody knows what it would have pinned
        yield _Pin(min(wanted - _RUNTIMES), "in invalid TOML", f"{file}:1")
        return
    for key, value in tools.items() if isinstance(tools, dict) else ():
        first = value[0] if isinstance(value, list) and value else value
        spec = str(first.get("version", "")) if isinstance(first, dict) else str(first)
        line = next((number for number, each in enumerate(text.splitlines(), 1) if key in each), 1)
        yield _Pin(_tool(key), spec, f"{file}:{line}")


def _tool(name: str) -> str:
    """Return the name of a tool without its source: of `npm:@a/b` it is `@a/b`, of `ubi:a/b` `b`."""
    bare = _SOURCE.sub("", name)
    return bare if bare.startswith("@") else bare.rpartition("/")[2]


def _release_of(manager: str, root: Path, pin: _Pin, contract: EngineContract) -> str | None:
    """Return the release that a pin names, or that a manager has installed for it or in that runtime."""
    spec = pin.spec.removeprefix("v")
    if pin.tool not in _RUNTIMES and _RELEASE.fullmatch(spec):
        return spec
    if not _INSTALLED.fullmatch(spec):
        return None
    if manager in ("nodenv", "pyenv"):
        places = [root / "versions" / spec]
    else:
        is_runtime = pin.tool in _RUNTIMES
        installs = sorted(root.glob(f"installs/*/{spec}"))
        places = [place for place in installs if (place.parent.name in _RUNTIMES) == is_runtime]
    versions = (package_version(contract, place / "bin" / contract.executable) for place in places)
    return next((version for version in versions if version), None)


def _by_volta(root: Path, contract: EngineContract, folder: Path) -> Choice | None:
    """Return what volta runs: the program of a dependency of the project, else what the user has installed."""
    for place in (folder, *folder.parents):
        with suppress(OSError, ValueError, RecursionError):
            text = read_regular(place / "package.json", _LONGEST)
            manifest = decode(text, _Manifest)
            names = contract.packages & {*manifest.dependencies, *manifest.devDependencies}
            if names:
                line = text[: text.find(min(names).encode())].count(b"\n") + 1
                at = f"{place / 'package.json'}:{line}"
                program = place / "node_modules/.bin" / contract.executable
                version = package_version(contract, program)
                why = f"it is a shim of volta, which would run {program} by {at}, and no release is known for that"
                return Choice("volta", at, version, "" if version else why)
            break
    own = root / "tools/user/bins" / f"{contract.executable}.json"
    with suppress(OSError, ValueError, RecursionError):
        return Choice("volta", str(own), decode(read_regular(own, _LONGEST), _UserBin).version)
    return None
