"""The releases of engines that the files of a project pin, and the places that name an engine without a release.

The files belong to whoever wrote the project. They are searched as text for the names of known engines, and nothing but
a version number, or a short text in its place, is taken from them. What names an engine in a way that nobody here
understands is told, too: silence would read as safe.
"""

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from msgspec import Struct

from turngate import EngineContract, UsageError
from turngate.files import read_regular
from turngate.sanitize import bounded
from turngate_probes.releases.engine_names import tool_names

MOST_BYTES = 32 * 2**20  # lock files can be long
MOST_FILES = 50_000
_LONGEST_TEXT = 2**20  # a file that people write is short, and its patterns take longer
_LONGEST = 100
# of others, or made by tools
_NOT_SEARCHED = frozenset({".git", "node_modules", "site-packages", "__pycache__", ".venv", "venv", ".tox", ".nox"})
_BELOW = (".config/mise.toml", ".config/mise/config.toml", ".mise/config.toml", "mise/config.toml")
_DOCKERFILE = r"(?:.*\.)?(?:Dockerfile|Containerfile)(?:\..*)?"
_SPEC = r"[^\s\"',:;()\[\]{}]+"
_REQUIREMENT = r"(?![\w.-])(?:\[[\w,. -]*\])? *(?P<REQ>(?:[=<>~!]=?=? *[^\s;#,\"')\\]+ *,? *)*)"
_VALUE = r"\"?NAME\"? *= *(?:\{[^}\n]{0,200}?version *= *)?[\"'](?P<VAL>[^\"'\n]*)[\"']"
_IN_USE = r"(?m:^in-use *= *\[)[^\]]{0,2000}?[\"']TOOL@(?P<SET>[^\"'\n]+)"
# by path, how a file says which release it is; NAME is a package of the engine, TOOL also its name as a tool
_LOCKS = {
    r"package-lock\.json|npm-shrinkwrap\.json": rf'"(?:node_modules/)?NAME": ?\{{\s*"version": ?"(?P<SPEC>{_SPEC})',
    r"pnpm-lock\.yaml": rf"(?m:^ *['\"]?/?)NAME[@/](?P<SPEC>{_SPEC})",
    r"yarn\.lock": rf'(?m:^"?NAME@[^\n]*:\n  version:? "?)(?P<SPEC>{_SPEC})',
    r"bun\.lock": rf'"NAME": ?\["NAME@(?P<SPEC>{_SPEC})',
    r"(?:uv|poetry|pdm)\.lock": rf'(?m:^name = "NAME"\nversion = ")(?P<SPEC>{_SPEC})',
    r"Pipfile\.lock": rf'"NAME": ?\{{[^{{}}]*"version": ?"(?P<SPEC>{_SPEC})',
}
_MANIFESTS = {
    r"package\.json": r'"NAME"\s*:\s*"(?P<VAL>[^"]*)"',
    r"requirements.*\.in": rf"(?m:^NAME{_REQUIREMENT})",
    r"pyproject\.toml|Pipfile|setup\.cfg": rf"{_VALUE}|(?<![\w./-])NAME{_REQUIREMENT}|{_IN_USE}",
}
_OTHERS = {
    r"(?:requirements|constraints).*\.txt|requirements/.*\.(?:txt|in)": rf"(?m:^NAME{_REQUIREMENT})",
    r"\.?mise(?:\.[\w.-]+)?\.toml|\.?mise/config\.toml|\.?mise/conf\.d/.*\.toml": (
        r"(?m:^\"?(?:\w+:(?:[\w.-]+/)?)?TOOL(?:\[[^\]\n]*\])?\"? *= *)"
        r"(?:(?:\{[^}\n]{0,200}?version *= *)?[\"'](?P<VAL>[^\"'\n]*)[\"']|\[(?P<LIST>[^\]]{0,500})\])"
    ),
    r"turngate\.toml": _IN_USE,
    r"\.tool-versions": r"(?m:^(?:\w+:(?:[\w.-]+/)?)?TOOL[ \t]+)(?P<VAL>\S+)",
    r"devbox\.json": r'"TOOL(?:@(?P<VAL>[^"]*))?"(?:\s*:\s*"(?P<SPEC>[^"]*)")?',
    r".*\.nix": r"(?<![\w-])TOOL(?:-nix)?(?![\w-])",
    r".*\.ya?ml": r"(?m:^ *[\"']?)NAME[\"']? *: *[\"']?(?P<VAL>[^\s\"'#]+)",
    rf"{_DOCKERFILE}|.*\.(?:sh|bash|zsh|mk|tf|hcl)|\.?(?:devcontainer|mcp)\.json|\.envrc|setup\.py|tox\.ini|noxfile\.py|"
    r"(?:GNU)?Makefile|Justfile|Taskfile|Jenkinsfile|Brewfile|Vagrantfile|Procfile|Earthfile": "",
}
_PATTERNS = {**_LOCKS, **_MANIFESTS, **_OTHERS}
_KNOWN = re.compile(rf"(?:.*/)?(?:{'|'.join(_PATTERNS)})", re.IGNORECASE)
# how a command names a release, in any of these files
_INSTALLERS = "brew|cask|nix|nix-env|nix-shell|apk|apt|apt-get|dnf|pacman|mise|asdf|volta|devbox"
_COMMAND = (
    r"(?<![\w@.-])(?<!\w/)NAME(?![\w-])(?:\[[\w,-]*\])?"
    r"(?:@(?P<AT>(?:\$\{\{[^}\n]{0,200}\}\}|\$\{[^}\n]{0,200}\}|\$\([^)\n]{0,200}\)|[^\s\"'`,;&|()\[\]{}<>\\])*)"
    r"|(?P<OP> ?[=<>~!]=?=? ?[^\s\"'`;&|()<>\\]+))?"
    rf"|(?<![\w-])(?:{_INSTALLERS})(?= )[^\n;&|#]{{0,200}}?[\s\"':#.]TOOL(?![\w./-])(?:(?:@| +)(?P<INST>\d[\w.+-]*))?"
)
# an action may get the release in the same step of a workflow
_ADDRESS = (
    r"(?<![\w-])(?P<ADDRESS>NAME(?![\w-])[^\s\"'`|;,)\]}>]*)"
    r"(?:(?:(?!\n[ \t]*-[ \t])[\s\S]){0,2000}?\n[ \t]+[\"']?TOOL[-_]version[\"']?:[ \t]*[\"']?(?P<VAL>[^\s\"'#]+))?"
)
_EXACT = re.compile(r"(?:={1,3}|v)? *(\d+\.\d+\.\d+(?:[-+][0-9A-Za-z.+-]+)?)")
# an engine can publish the binaries of a release as versions of its own package, which lock files list beside it
_BINARY = re.compile(r".*-(?:darwin|linux|win32)-(?:x64|arm64)")
_CONTRACT = re.compile(r"(?m)^schema: *[\"']?turngate\b")  # it says where releases are, not which one is used
_COMMENT = re.compile(r"(?m)^[ \t]*#.*$")
_SET = re.compile(r"\s*(ARG|ENV)\s+(.*)", re.IGNORECASE)
_PAIR = re.compile(r"(\w+)(?:=[\"']?([^\s\"']*))?")
_OLD_PAIR = re.compile(r"(\w+)[ \t]+[\"']?([^\s\"'=]+)[\"']?\s*$")
_FROM = re.compile(r"\s*FROM\s+(?:--\S+\s+)*(\S+)(?:\s+AS\s+(\S+))?", re.IGNORECASE)
_USED = re.compile(r"\$(?:\{(\w+)(?::-([^}]*))?\}|(\w+))")


class ProjectPin(Struct, frozen=True):
    """The release at which a file pins an engine, and the place `file:line`.

    `version` None: the file names the engine, and `text` is what it says in place of a release; empty: nothing.
    `is_setting`: it stands in turngate's own settings.
    """

    version: str | None
    place: str
    text: str = ""
    is_setting: bool = False

    @property
    def flaw(self) -> str:
        """What it says in place of a release."""
        return f"`{self.text}` names no single release" if self.text else "the file names no release"


class ProjectPins(Struct, frozen=True):
    """The pins of a project by engine, and what of it was not searched."""

    by_engine: Mapping[str, list[ProjectPin]]
    not_searched: tuple[str, ...] = ()


class _Named(Struct, frozen=True):
    """An engine, and the names of its packages, of it as a tool, and of the addresses of what installs it.

    `names` are all of them, in small letters.
    """

    engine: str
    packages: frozenset[str]
    tools: frozenset[str]
    addresses: frozenset[str]
    names: tuple[str, ...]


class _File(Struct, frozen=True):
    """A file of a known kind: how it pins an engine, and whether a lock file takes precedence over it."""

    path: Path
    pattern: str
    is_lock: bool
    is_manifest: bool


def project_pin(folder: Path, contract: EngineContract) -> ProjectPin | None:
    """Return the release of an engine that the files of a folder pin, None if they pin none.

    A range such as `^1.2.0` is no pin. UsageError: the files pin different releases.
    """
    pins = project_pins(folder, [contract]).by_engine[contract.engine]
    pins = [pin for pin in pins if pin.version and not pin.is_setting]
    for pin in pins[1:]:
        if pin.version != pins[0].version:
            what = f"{contract.engine} is {pins[0].version} in {pins[0].place}, but {pin.version} in {pin.place}"
            hint = f"name both releases: turngate gate {contract.engine}@latest --from {contract.engine}@VERSION"
            raise UsageError(what, hint)
    return pins[0] if pins else None


def loose_pins(folder: Path, contracts: Iterable[EngineContract]) -> str:
    """Say where the files of a folder name an engine without a release, such as by a range; empty if nowhere."""
    found = project_pins(folder, contracts).by_engine.items()
    loose = ((name, pin) for name, pins in found for pin in pins if not pin.version)
    return "; ".join(f"{pin.place}: {pin.flaw} of {name}" for name, pin in loose)


def project_pins(folder: Path, contracts: Iterable[EngineContract], *, below: bool = False) -> ProjectPins:
    """Return what the files of a folder say of engines; those of an engine may differ.

    `below` searches the folders in it, too. A range counts only if no lock file beside it or above says what it means.
    """
    wanted = [*map(_named, contracts)]
    pins: dict[str, list[ProjectPin]] = {each.engine: [] for each in wanted}
    locked: dict[str, set[Path]] = {each.engine: set() for each in wanted}
    ranges: list[tuple[str, Path, ProjectPin]] = []
    not_searched: list[str] = []
    for file in sorted(_known(folder, not_searched, below=below), key=lambda file: (not file.is_lock, file.path)):
        text = _text(folder / file.path, not_searched)
        if _CONTRACT.search(text):
            continue
        lower = text.lower()
        named = [each for each in wanted if any(name in lower for name in each.names)]
        if named and not file.is_lock and len(text) > _LONGEST_TEXT:
            not_searched.append(f"{file.path} is longer than {_LONGEST_TEXT // 2**20} MB")
            continue
        for each in named:
            for pin, is_range in _in_text(file, text, each):
                if file.is_lock and pin.version:
                    locked[each.engine].add(file.path.parent)
                if is_range:
                    ranges.append((each.engine, file.path.parent, pin))
                else:
                    pins[each.engine].append(pin)
    for engine, place, pin in ranges:
        if locked[engine].isdisjoint({place, *place.parents}):
            pins[engine].append(pin)
    ordered = {engine: sorted(found, key=lambda pin: _by_place(pin.place)) for engine, found in pins.items()}
    return ProjectPins(ordered, tuple(not_searched))


def _named(contract: EngineContract) -> _Named:
    packages = contract.packages
    addresses = frozenset(contract.installed_by) - packages
    tools = packages | tool_names(contract)
    return _Named(contract.engine, packages, tools, addresses, tuple(name.lower() for name in tools | addresses))


def _by_place(place: str) -> tuple[str, int]:
    file, _, line = place.rpartition(":")
    return file, int(line)


def _known(folder: Path, not_searched: list[str], *, below: bool) -> Iterator[_File]:
    """Yield the files of known kinds, relative to the folder."""
    for path in _below(folder, not_searched) if below else _beside(folder):
        if _KNOWN.fullmatch(text := path.as_posix()):
            named = (names for names in _PATTERNS if re.fullmatch(rf"(?:.*/)?(?:{names})", text, re.IGNORECASE))
            names = next(named)
            yield _File(path, _PATTERNS[names], is_lock=names in _LOCKS, is_manifest=names in _MANIFESTS)


def _beside(folder: Path) -> list[Path]:
    """List the files of a folder, and those of mise below it."""
    try:
        return [*(Path(entry.name) for entry in folder.iterdir()), *map(Path, _BELOW)]
    except OSError:
        return []


def _below(folder: Path, not_searched: list[str]) -> Iterator[Path]:
    """Yield the files of a folder and of those in it, except dependencies; no link to a folder is followed."""
    count = 0

    def unreadable(error: OSError) -> None:
        not_searched.append(f"{os.path.relpath(error.filename, folder)} can't be read: {error.strerror}")

    for root, folders, names in os.walk(folder, onerror=unreadable):
        if "pyvenv.cfg" in names and root != str(folder):
            folders.clear()
            continue
        folders[:] = sorted({*folders} - _NOT_SEARCHED)
        count += len(names)
        if count > MOST_FILES:
            not_searched.append(f"it has more than {MOST_FILES} files, and those after {root} were not searched")
            return
        yield from (Path(os.path.relpath(root, folder), name) for name in names)


def _in_text(file: _File, text: str, engine: _Named) -> Iterator[tuple[ProjectPin, bool]]:
    """Yield what a file says of an engine, each once, with whether a lock file can say what it means."""
    seen = set[str]()
    for pattern in (file.pattern if file.is_lock else "|".join(filter(None, (file.pattern, _COMMAND))), _COMMAND):
        for found in re.finditer(_filled(pattern, engine.packages, engine.tools), text, re.IGNORECASE):
            said = {kind: value for kind, value in found.groupdict().items() if value}
            listed = re.findall(r"[\"']([^\"'\n]*)[\"']", said["LIST"]) if "LIST" in said else [*said.values()][:1]
            for each in listed or [""]:
                spec = bounded(" ".join(each.split()), _LONGEST).rstrip(",")
                exact = _EXACT.fullmatch(spec)
                if spec in seen or (file.is_lock and _BINARY.fullmatch(spec)):
                    continue
                seen.add(spec)
                version, place = exact[1] if exact else None, _place(file, text, found)
                is_range = file.is_manifest and not exact and said.keys() <= {"VAL", "REQ"} and bool(said)
                yield ProjectPin(version, place, "" if exact else spec, "SET" in said), is_range
        if seen or not file.is_lock:
            break
    if engine.addresses:
        for found in re.finditer(_filled(_ADDRESS, engine.addresses, engine.tools), text, re.IGNORECASE):
            exact = _EXACT.fullmatch(found["VAL"] or "")
            spec = "" if exact else bounded(found["VAL"] or found["ADDRESS"], _LONGEST)
            yield ProjectPin(exact[1] if exact else None, _place(file, text, found), spec), False


def _place(file: _File, text: str, found: re.Match[str]) -> str:
    """Return the line of what was found, of its version if there is one."""
    at = max((found.start(name) for name, value in found.groupdict().items() if value), default=found.start())
    return f"{file.path}:{text.count(chr(10), 0, at) + 1}"


def _filled(pattern: str, packages: Iterable[str], tools: Iterable[str]) -> str:
    """Return a pattern of the names of an engine, of which each group has a name of its own."""
    return pattern.replace("NAME", _any_of(packages)).replace("TOOL", _any_of(tools))


def _any_of(names: Iterable[str]) -> str:
    longest_first = sorted(names, key=lambda name: (-len(name), name))
    return f"(?:{'|'.join(map(_spelled, longest_first))})" if longest_first else "(?!)"


def _spelled(name: str) -> str:
    """Return the pattern of a name: a PyPI package may be written with any of these signs."""
    return re.escape(name).replace(r"\-", "[-_.]")


def _with_values(text: str) -> str:
    """Replace the variables of a Dockerfile by the values that it sets itself, in each stage its own."""
    everywhere: dict[str, str] = {}  # before the first stage
    by_stage: dict[str, dict[str, str]] = {}
    args, env, stage = everywhere, dict[str, str](), ""
    lines = []
    for line in text.split("\n"):
        filled = _substituted(line, {**args, **env})
        lines.append(filled)
        if begins := _FROM.match(filled):
            by_stage[stage] = env
            args, env, stage = {}, {**by_stage.get(begins[1].lower(), {})}, (begins[2] or "").lower()
        elif sets := _SET.match(filled):
            pairs = [_OLD_PAIR.match(sets[2])] if _OLD_PAIR.match(sets[2]) else _PAIR.finditer(sets[2])
            for pair in filter(None, pairs):
                value = pair[2] or (everywhere.get(pair[1]) if sets[1].upper() == "ARG" else None)
                if value and len(value) <= _LONGEST:  # values can be made of each other
                    (env if sets[1].upper() == "ENV" else args)[pair[1]] = value
    return "\n".join(lines)


def _substituted(line: str, values: Mapping[str, str]) -> str:
    return _USED.sub(lambda used: values.get(used[1] or used[3]) or used[2] or used[0], line)


def _text(file: Path, not_searched: list[str]) -> str:
    """Return the text of a file without comments; empty if it is none."""
    try:
        data = read_regular(file, MOST_BYTES + 1)
    except OSError as error:
        if isinstance(error, PermissionError):
            not_searched.append(f"{file.name} can't be read: {error.strerror}")
        return ""
    if len(data) > MOST_BYTES:
        not_searched.append(f"{file.name} is longer than {MOST_BYTES // 2**20} MB")
        return ""
    text = _COMMENT.sub("", data.decode("utf-8", "replace").replace("\r\n", "\n"))
    return _with_values(text) if re.fullmatch(_DOCKERFILE, file.name, re.IGNORECASE) else text
