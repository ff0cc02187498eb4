"""What users write to name a release: `codex`, `codex@0.169.0` or `codex=/path`."""

import re
import shlex
from pathlib import Path

from msgspec import Struct

from turngate import UsageError, engine_names, load_contract
from turngate.contract.load import unusable
from turngate.errors import did_you_mean

_TARGET = re.compile(r"(?P<engine>[a-z][a-z0-9-]*)(?:@(?:v(?=\d))?(?P<version>[^=@]+)|=(?P<path>.+))?", re.DOTALL)


class Target(Struct, frozen=True):
    """A target: an engine, at most one of a version and an executable, and an output mode (empty: the default)."""

    engine: str
    version: str | None = None
    path: Path | None = None
    output: str = ""

    def __str__(self) -> str:
        """Return the target as users write it, with the output mode in parentheses."""
        build = f"@{self.version}" if self.version else f"={self.path}" if self.path else ""
        return self.engine + build + (f" ({self.output})" if self.output else "")


def parse_target(text: str) -> Target:
    """Read a target; UsageError describes valid targets. ContractError: the engine's contract is left out."""
    target = _TARGET.fullmatch(text)
    if target and (error := unusable(target["engine"])):
        raise error
    if not target or target["engine"] not in engine_names():
        raise UsageError(f"{text!r} is not an engine", _meant(text))
    return Target(target["engine"], target["version"], Path(target["path"]).expanduser() if target["path"] else None)


def _meant(text: str) -> str:
    """Return what to write instead of what is no target."""
    name, known = re.split("[@=]", text)[0], engine_names()
    package, _, version = text.removeprefix("@").partition("@")
    if engine := _packages().get(package):
        return f"write {Target(engine, version or None)}"
    if text[:1].isdigit():
        return f"a version needs its engine: write ENGINE@{text}"
    if text == "-" or text.endswith(".json"):
        return "--json takes no value; write files with --report FILE"
    if "/" in text and "=" not in text:  # an executable without the name of its engine
        return f"did you mean {next((each for each in known if each in Path(text).name), 'ENGINE')}={text}?"
    if _TARGET.fullmatch(text) and (mine := next(Path().glob(f"*/engines/{name}.yaml"), None)):
        return f"to use {mine}, pass --contracts {shlex.quote(str(mine.parents[1]))}"
    forms = f"write ENGINE, ENGINE@VERSION or ENGINE=PATH; engines: {', '.join(known)}, and yours with --contracts DIR"
    return forms if name in known else did_you_mean(name, known, forms)


def _packages() -> dict[str, str]:
    """Return the engine of each package that a contract names; the `@` of an npm scope is left out."""
    found: dict[str, str] = {}
    for engine in engine_names():
        contract = load_contract(engine)
        published = (contract.npm, contract.published.pypi)
        found |= {each.package.removeprefix("@"): engine for each in published if each}
    return found
