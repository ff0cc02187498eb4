"""The releases of engines that a project pins: by lock files, manifests, requirements, Dockerfiles, mise and asdf.

The files belong to whoever wrote the project. They are searched as text for the packages of known engines, and nothing
but a version number is taken from them.
"""

import re
from collections.abc import Iterable
from pathlib import Path

from msgspec import Struct

from turngate import EngineContract, UsageError
from turngate.files import read_regular

MOST_BYTES = 32 * 2**20  # lock files can be long
_BELOW = (".config/mise.toml", ".config/mise/config.toml", ".mise/config.toml", "mise/config.toml")
_DOCKERFILE = r"(.*\.)?(Dockerfile|Containerfile)(\..*)?"
_SET = re.compile(r"^[ \t]*(?:ARG|ENV)[ \t]+(\w+)[= \t][\"']?([^\s\"']+)", re.MULTILINE)
_USED = re.compile(r"\$(?:\{(\w+)\}|(\w+))")
_VERSION = r"(?P<version>\d+\.\d+\.\d+(?:[-+][0-9A-Za-z.+-]+)?)(?![\w.+-]| +(?:\|\||- |,))"
# by file name, what precedes the version; NAME is a package of the engine, ANY also its executable, for mise and asdf
_BEFORE = {
    r"package-lock\.json|npm-shrinkwrap\.json": r'"(?:node_modules/)?NAME": ?\{\s*"version": ?"',
    r"pnpm-lock\.yaml": r"(?m:^ *['\"]?/?)NAME[@/]",
    r"yarn\.lock": r'(?m:^"?NAME@[^\n]*:\n  version:? "?)',
    r"bun\.lock": r'"NAME": ?\["NAME@',
    r"(uv|poetry|pdm)\.lock": r'(?m:^name = "NAME"\nversion = ")',
    r"Pipfile\.lock": r'"NAME": ?\{[^{}]*"version": ?"==',
    r"package\.json": r'"NAME": ?"=?',
    r"requirements.*\.(txt|in)": r"(?m:^NAME *== *)",
    r"pyproject\.toml|Pipfile": r'"?NAME"? *(?:= *")?== *',
    _DOCKERFILE: r"(?<![\w@/.-])NAME(?:@|==)",
    r"\.?mise(\.[\w.-]+)?\.toml|config\.toml": r'(?m:^"?(?:npm:|pipx:)?ANY"? *= *(?:\{ *version *= *)?")',
    r"\.tool-versions": r"(?m:^(?:npm:|pipx:)?ANY[ \t]+)",
}


class ProjectPin(Struct, frozen=True):
    """The version at which a file pins an engine, and the place `file:line`."""

    version: str
    place: str


def project_pin(folder: Path, contract: EngineContract) -> ProjectPin | None:
    """Return the release of an engine that the files of a folder pin, None if they pin none.

    A range such as `^1.2.0` is no pin. UsageError: the files pin different releases.
    """
    pins = project_pins(folder, [contract])[contract.engine]
    for pin in pins[1:]:
        if pin.version != pins[0].version:
            what = f"{contract.engine} is {pins[0].version} in {pins[0].place}, but {pin.version} in {pin.place}"
            hint = f"name both releases: turngate gate {contract.engine}@latest --from {contract.engine}@VERSION"
            raise UsageError(what, hint)
    return pins[0] if pins else None


def project_pins(folder: Path, contracts: Iterable[EngineContract]) -> dict[str, list[ProjectPin]]:
    """Return the pin of each file of a folder, by engine; those of an engine may differ."""
    wanted = [(contract, _packages(contract)) for contract in contracts]
    pins: dict[str, list[ProjectPin]] = {contract.engine: [] for contract, _ in wanted}
    for file in sorted(_files(folder)):
        before = next((text for name, text in _BEFORE.items() if re.fullmatch(name, file.name)), None)
        if before is None:
            continue
        text = _text(file)
        if re.fullmatch(_DOCKERFILE, file.name):
            text = _with_values(text)
        for contract, names in wanted:
            tools = names | {contract.executable} if names and "ANY" in before else names
            # a lock file can be long, and names few of the engines
            if any(name in text for name in tools) and (found := re.search(_pin_of(tools, before), text)):
                line = text.count("\n", 0, found.start("version")) + 1
                pins[contract.engine].append(ProjectPin(found["version"], f"{file.relative_to(folder)}:{line}"))
    return pins


def _packages(contract: EngineContract) -> set[str]:
    return {source.package for source in (contract.published.npm, contract.published.pypi) if source}


def _pin_of(names: set[str], before: str) -> str:
    """Return the pattern of a pin that follows one of the names, each of a package or executable."""
    any_of = "(?:{})".format("|".join(map(re.escape, sorted(names))))
    return before.replace("NAME", any_of).replace("ANY", any_of) + _VERSION


def _files(folder: Path) -> list[Path]:
    """List the files of a folder, and those of mise below it."""
    try:
        return [*(file for file in folder.iterdir() if file.name != "config.toml"), *map(folder.joinpath, _BELOW)]
    except OSError:
        return []


def _with_values(text: str) -> str:
    """Replace the variables of a Dockerfile by the values that it sets itself."""
    values = dict(_SET.findall(text))
    return _USED.sub(lambda used: values.get(used[1] or used[2], used[0]), text)


def _text(file: Path) -> str:
    """Return the text of a file; empty if it can't be read or is too long to be a lock file."""
    try:
        data = read_regular(file, MOST_BYTES + 1)
    except OSError:
        return ""
    return data.decode("utf-8", "replace") if len(data) <= MOST_BYTES else ""
