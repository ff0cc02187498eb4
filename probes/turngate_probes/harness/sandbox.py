"""A sandbox for the turns of one case: home, working directories, environment, model backend, and a stranger.

The stranger owns the repository in the workspace. Every redirect of a contract gets an address, a key and a text of its
own, so that an effect names its cause: a request at that address, that key in a request, that text in a request to the
model, or the marker of a program that ran.
"""

import json
import os
import re
import shlex
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from turngate import ContractError, EngineContract, MachineError
from turngate.contract.hermetic import Hermetic
from turngate.contract.home_and_workspace import Redirect, SetupFile
from turngate.files import locked
from turngate.process.copied_values import CopiedValues
from turngate.process.supplied_files import supplied_root
from turngate_probes.harness import mcp_server
from turngate_probes.harness.observations import Observation, ServerCall, Turn
from turngate_probes.stub_model import Exchange, StubBackend

CONTAINER_PROGRAMS = ("docker", "podman")
_INHERITED = ("PATH", "LANG", "LC_ALL", "SYSTEMROOT")
_SECRET = re.compile(r"KEY|TOKEN|SECRET|PASS|CREDENTIAL|AUTH|COOKIE", re.IGNORECASE)
_SHORTEST_SECRET = 6
_COMMENT = re.compile(r"^\s*//.*$", re.MULTILINE)
_HIDDEN = "<secret>"
_LOOPBACK = "127.0.0.1,localhost,::1"
_CANARY = """#!/bin/sh
: > '{markers}'/"$1"
"""
_XDG = {"CONFIG": ".config", "CACHE": ".cache", "DATA": ".local/share", "STATE": ".local/state"}


class Stranger(Struct):
    """The owner of a workspace, with the redirects in it; `backend` is the stranger's address."""

    backend: StubBackend
    redirects: tuple[Redirect, ...]
    _seen: int = 0

    def slots(self, redirect: Redirect) -> Mapping[str, str]:
        """Return what the slots of a redirect's files stand for."""
        name = redirect.name
        return {"stranger": f"{self.backend.url}/{name}", "planted": _key(name), "marker": _text(name)}

    def effects(self, requests: Iterable[Exchange], started: Iterable[str]) -> tuple[str, ...]:
        """Return the redirects that had an effect since the last call, by the model's requests and started programs."""
        every, host, requests = self.backend.exchanges(), self.backend.url.rpartition("/")[2], tuple(requests)
        received, self._seen = every[self._seen :], len(every)
        # an engine may use the proxy of the sandbox, which passes nothing on, even for this machine
        received += tuple(request for request in requests if host in _parts(request))
        sent, programs = (*received, *requests), {*started}
        # an engine may keep only the host of an address
        addressed = {part for request in received for part in _parts(request)}
        anonymous = bool(received) and not addressed & {redirect.name for redirect in self.redirects}
        return tuple(
            redirect.name
            for redirect in self.redirects
            if redirect.name in addressed | programs
            or (redirect.kind == "address" and anonymous)
            or (redirect.kind == "container" and programs & {*CONTAINER_PROGRAMS})
            or any(_was_sent(redirect.name, request) for request in sent)
        )


def _parts(request: Exchange) -> list[str]:
    return re.split("[/?]", request.path)


def _was_sent(name: str, request: Exchange) -> bool:
    key, text = _key(name), _text(name).encode()
    return text in request.body or any(key in part for part in (request.path, *request.headers.values()))


def _key(name: str) -> str:
    return f"sk-planted-{name}-0123456789abcdef"


def _text(name: str) -> str:
    return f"planted-text-{name}-0123456789abcdef"


class Sandbox(Struct, frozen=True):
    """Directories below `root`, their backend, and `model_url`, where the engine looks for a model.

    `shared` is a folder for what the engine unpacks once for all sandboxes of a probe. With `account`, the user's own
    environment, engines run in that instead, with the user's model and home. Only the working directories are private.
    `stranger` is the owner of the workspace, where that isn't the user.
    """

    root: Path
    backend: StubBackend
    model_url: str
    shared: Path
    account: Mapping[str, str] | None = None
    stranger: Stranger | None = None

    def nested(self, name: str, hermetic: Hermetic) -> "Sandbox":
        """Make a sandbox in this one, with the same backend and a fresh home and workspace."""
        made = replace(self, root=self.root / name)
        made.furnish(hermetic)
        return made

    @property
    def home(self) -> Path:
        """The engine's home directory."""
        return self.root / "home"

    @property
    def work(self) -> Path:
        """The project in which turns run by default."""
        return self.root / "work"

    @property
    def other(self) -> Path:
        """A second project."""
        return self.root / "other"

    @property
    def canary(self) -> Path:
        """The harmless program that engines are offered; it leaves a marker named as its first argument."""
        return self.root / "canary"

    @property
    def mcp_server(self) -> Path:
        """The harmless MCP server that a user's settings may name."""
        return self.root / "mcp-server"

    @property
    def markers(self) -> Path:
        """The directory of the markers, which is there where programs are offered."""
        return self.root / "markers"

    @property
    def programs(self) -> Path:
        """The directory of programs that come before those of PATH, where there are any."""
        return self.root / "programs"

    def offer_programs(self, *names: str) -> None:
        """Make the harmless program, also under these names on PATH, which then leaves a marker of that name."""
        self.markers.mkdir()
        self.programs.mkdir()
        for path, marker in ((self.canary, '"$1"'), *((self.programs / name, name) for name in names)):
            path.write_text(_CANARY.replace('"$1"', marker).format(markers=self.markers), "utf-8")
            path.chmod(0o755)

    def offer_mcp_server(self) -> None:
        """Make the harmless MCP server."""
        command = shlex.join((sys.executable, "-I", mcp_server.__file__))
        self.mcp_server.write_text(f'#!/bin/sh\nexec {command} "$@"\n', "utf-8")
        self.mcp_server.chmod(0o755)

    def place(self, files: Iterable[SetupFile], **slots: str) -> None:
        """Write files, merged with those that exist: JSON objects, TOML before, and any other text after.

        ContractError: a path isn't in the sandbox. MachineError: a file can't be written.
        """
        for file in files:
            path, content = self._inside(file.path), self.fill(file.content, **slots)
            present = path.read_text("utf-8") if path.is_file() and not path.is_symlink() else ""
            _replace(path, merged(path.suffix, present, content))

    def started(self) -> tuple[str, ...] | None:
        """Return the canaries that were started since the last call; None: none was offered."""
        if not self.markers.is_dir():
            return None
        left = sorted(self.markers.iterdir())
        for marker in left:
            marker.unlink()
        return tuple(marker.name for marker in left)

    def furnish(self, hermetic: Hermetic) -> None:
        """Make missing directories, and write the files that the contract requires."""
        for folder in (self.home, self.work, self.other, self.root / "tmp"):
            folder.mkdir(parents=True, exist_ok=True)
        for file in hermetic.files if self.account is None else ():
            _replace(self._inside(file.path), self.fill(file.content))

    def _inside(self, template: str) -> Path:
        """Return the path of a file of the contract; ContractError if it isn't in the sandbox.

        An engine that ran in this sandbox may have left links.
        """
        path = Path(self.fill(template))
        folder = next(parent for parent in path.parents if parent.exists())
        inside = (path.is_relative_to(self.root), folder.resolve(strict=True).is_relative_to(self.root.resolve()))
        if not all(inside) or ".." in path.parts:
            raise ContractError(f"{template} leads out of the sandbox", hint="write {home}/NAME or {work}/NAME")
        return path

    def fill(self, text: str, **more: str) -> str:
        """Fill the slots of a text; `more` are further slots."""
        if "{" not in text:
            return text
        slots = {
            "url": self.model_url,
            "home": self.home,
            "work": self.work,
            "tmp": self.root / "tmp",
            "shared": self.shared,
            "canary": self.canary,
            "mcp_server": self.mcp_server,
            **more,
        }
        for slot, value in slots.items():
            text = text.replace(f"{{{slot}}}", str(value))
        return text

    def env(self, hermetic: Hermetic, cwd: Path) -> dict[str, str]:
        """Build the whole environment of one turn: an allow-list, the sandbox, and what the contract sets."""
        if self.account is not None:
            return {**self.account, "PWD": str(cwd)}
        proxies = dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"), self.backend.url)
        proxies["NO_PROXY"] = _LOOPBACK
        env = {name: os.environ[name] for name in _INHERITED if name in os.environ}
        if self.programs.is_dir():
            env["PATH"] = f"{self.programs}:{env.get('PATH', '')}"
        env |= {"HOME": str(self.home), "PWD": str(cwd), "TMPDIR": str(self.root / "tmp"), "TZ": "UTC", "TERM": "dumb"}
        env |= {f"XDG_{name}_HOME": str(self.home / folder) for name, folder in _XDG.items()}
        env |= proxies | {name.lower(): value for name, value in proxies.items()}
        # real engines ignore it; a simulated one needs it to reach its backend
        env["TURNGATE_SIMULATE_URL"] = self.model_url
        return env | {name: self.fill(value) for name, value in hermetic.env.items()}

    def variables(self, hermetic: Hermetic, cwd: Path, more: Iterable[str] = ()) -> tuple[str, ...]:
        """Return the names of a turn's variables that are not inherited from this process, including `more`."""
        inherited = {name for name in _INHERITED if name in os.environ}
        return tuple(sorted({*self.env(hermetic, cwd), *more} - inherited))

    def places(self) -> Mapping[str, str]:
        """Return placeholders for this sandbox's paths and ports, for evidence that others read."""
        known = {
            str(self.root): "<sandbox>",
            str(self.shared): "<shared>",
            str(supplied_root()): "<supplied>",
            self.backend.url: "<backend>",
            self.model_url: "<backend>",
        }
        if self.account is None:
            return known
        return {**known, **dict.fromkeys(secrets_of(self.account), _HIDDEN), str(Path.home()): "<home>"}

    def without_secrets(self, data: bytes) -> bytes:
        """Remove the user's secrets from an engine's output."""
        for value in sorted(map(os.fsencode, secrets_of(self.account or {})), key=len, reverse=True):
            data = data.replace(value, _HIDDEN.encode())
        return data


def with_copied(contract: EngineContract, copied: CopiedValues) -> EngineContract:
    """Return the contract with values of the user in its sandbox; what keeps a sandbox closed outranks them."""
    hermetic = contract.hermetic
    files = {file.path: file for file in hermetic.files}
    for file in copied.files:
        content, suffix = file.content, Path(file.path).suffix
        if own := files.get(file.path):
            # of two texts, the later counts in JSON, while TOML must begin with what is in no table
            is_toml = suffix == ".toml"
            texts = (own.content, _without_keys(content, own.content)) if is_toml else (content, own.content)
            content = merged(suffix, *texts)
        files[file.path] = SetupFile(file.path, content)
    env = {**copied.env, **hermetic.env}
    return replace(contract, hermetic=replace(hermetic, files=tuple(files.values()), env=env))


def merged(suffix: str, present: str, content: str) -> str:
    """Return the content of a file that two settings share."""
    if not present or present == content:
        return content
    if suffix == ".json":
        present = _COMMENT.sub("", present)  # an engine may have put some before what it wrote
        return json.dumps(_joined(json.loads(present), json.loads(content)), indent=2) + "\n"
    # the top level of a TOML file ends at its first table
    parts = (content, _without_keys(present, content)) if suffix == ".toml" else (present, content)
    return "".join(part if part.endswith("\n") else f"{part}\n" for part in parts)


def _without_keys(text: str, other: str) -> str:
    """Leave out lines above the first table of a TOML file whose keys `other` sets, since no key may be set twice."""
    top, table, rest = text.partition("[") if text.startswith("[") else text.partition("\n[")
    keys = {line.partition("=")[0].strip() for line in other.splitlines() if "=" in line}
    kept = (line for line in top.splitlines(keepends=True) if line.partition("=")[0].strip() not in keys)
    return "".join((*kept, table, rest))


def _joined(present: object, added: object) -> object:
    if isinstance(present, dict) and isinstance(added, dict):
        shared = present.keys() & added.keys()
        return present | added | {key: _joined(present[key], added[key]) for key in shared}
    return [*present, *added] if isinstance(present, list) and isinstance(added, list) else added


def _replace(path: Path, text: str) -> None:
    """Write a file in place of what is there, without following a link; MachineError if it can't be written."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        path.write_text(text, "utf-8")
    except OSError as error:
        raise MachineError(f"{path} can't be written: {error.strerror}") from error


def secrets_of(environ: Mapping[str, str]) -> list[str]:
    """Return the values of variables that may hold a secret, by their names."""
    return [value for name, value in environ.items() if _SECRET.search(name) and len(value) >= _SHORTEST_SECRET]


@contextmanager
def sandbox(
    hermetic: Hermetic,
    parent: Path,
    name: str,
    *,
    keep: bool,
    model_url: str | None = None,
    shared: Path | None = None,
    account: Mapping[str, str] | None = None,
) -> Iterator[Sandbox]:
    """Make a sandbox below `parent`, removed afterwards unless kept; `model_url` replaces the backend's.

    `shared` is the folder that it shares with others (None: it has its own).
    """
    place = nullcontext(parent / name) if keep else claimed(parent, f"{name}-")
    with place as root, StubBackend() as backend:
        made = Sandbox(root, backend, model_url or backend.url, shared or root / "shared", account)
        made.furnish(hermetic)
        yield made


@contextmanager
def claimed(parent: Path, prefix: str) -> Iterator[Path]:
    """Make a private folder below `parent`, held while the block runs and removed afterwards."""
    parent.mkdir(parents=True, exist_ok=True)
    with ExitStack() as holding:
        with locked(parent):
            root = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))
            holding.enter_context(locked(root))
        try:
            yield root
        finally:
            shutil.rmtree(root, ignore_errors=True)


def sweep(parent: Path) -> None:
    """Remove the folders below `parent` that killed runs left behind."""
    if not parent.is_dir():
        return
    with locked(parent):
        left = [folder for folder in parent.iterdir() if _is_free(folder)]
    for folder in left:
        shutil.rmtree(folder, ignore_errors=True)


def _is_free(folder: Path) -> bool:
    try:
        with locked(folder, wait=False):
            return folder.is_dir()
    except OSError:
        return False


def save_streams(item: Observation, root: Path) -> None:
    """Write argv, stdout, stderr and (of a turn) each request under `turns/<step>` of a kept sandbox, but no calls."""
    if isinstance(item, ServerCall):
        return
    folder = root / "turns" / item.step
    folder.mkdir(parents=True, exist_ok=True)
    reported = {"argv": item.argv, "exit_code": item.exit_code, "ended": item.ended.value}
    (folder / "command.json").write_text(json.dumps(reported, indent=2) + "\n", "utf-8")
    (folder / "stdout").write_bytes(item.stdout)
    (folder / "stderr").write_bytes(item.stderr)
    for i, request in enumerate(item.requests or () if isinstance(item, Turn) else ()):
        (folder / f"request-{i + 1}.json").write_bytes(request.body)
