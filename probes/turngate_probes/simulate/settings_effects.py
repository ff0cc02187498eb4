"""What a user's home, a workspace and a prompt bring about in a simulated engine, as its contract says of the real one.

An entry of the contract has its effect where all of its files and options are there and nothing guards the engine, or
where a deviation says that the guard fails. The files may hold more than the entry's: what another entry, or the
sandbox, has put there.
"""

import json
import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

from msgspec import structs

from turngate import EngineContract, Mode
from turngate.argv.file_slot import as_in_contract
from turngate.contract.home_and_workspace import Canary, OutputSetting, Redirect, SetupFile
from turngate_probes.simulate.backend import URL_VARIABLE, Answer, EngineContext, ModelRequest
from turngate_probes.simulate.printing import simulation

_CONTAINER_PROGRAM = "docker"
# what a probe puts into the slots of an entry's files; none of it contains a quote, a bracket or white space
_SLOT = re.compile(r"\\\{(work|home|canary|stranger|planted|marker|collector)\\\}")
_VALUE = r"[^\s\"',\[\]{}]+"


def visit(contract: EngineContract, argv: Sequence[str], world: EngineContext) -> EngineContext:
    """Let the workspace and the options have their effects, and return what the engine's environment is then."""
    env, cwd = world.env, world.cwd
    guarded = _is_guarded(contract, argv, env)
    for canary in contract.canaries:
        # without guards, an option that trusts the workspace outranks those that make the engine ask
        trusted = canary.control.options and not (contract.guards.options or contract.guards.env)
        kept_out = guarded and canary.files and not canary.options and not trusted
        if not kept_out and (program := _offered(canary, argv, env, cwd)):
            _start(program, canary.name, env)
    for setting in contract.output_settings:
        values = _found(setting.files, env, cwd) if setting.env.keys() <= env.keys() else None
        if values is not None:
            _show(setting, values, env)
    declared = {d.symptom for d in contract.deviations if d.clause == "workspace.cannot-redirect"}
    for redirect in contract.redirects:
        if guarded and redirect.kind not in declared:
            continue
        options = [next(_matches(template, argv), None) for template in redirect.control.options]
        values = _found((*redirect.files, *redirect.control.files), env, cwd)
        if values is not None and None not in options:
            world = _redirected(redirect, values, world)
    return world


def lets_act(contract: EngineContract, argv: Sequence[str], env: Mapping[str, str], cwd: str) -> bool:
    """Return whether a setting of the user lets the engine act without asking."""
    if asks(contract, argv, env) or simulation(contract).arguments.no_settings in argv:
        return False
    return any(
        setting.env.items() <= env.items() and _found(setting.files, env, cwd) is not None
        for setting in contract.approval_settings
    )


def files_named(contract: EngineContract, prompt: str, env: Mapping[str, str], cwd: str) -> str:
    """Return the content of the files that marks in a prompt name, each on a line of its own after the first."""
    contents = []
    for mark in contract.file_marks:
        for found in re.finditer(mark.pattern, prompt):
            path = re.sub("^~", env.get("HOME", "~"), found["path"].strip("\"'`{}").removeprefix("file://"))
            with suppress(OSError, ValueError):
                contents.append(Path(cwd, path).read_text("utf-8"))
    return "".join(f"\n{content}" for content in contents)


def instructions(contract: EngineContract, env: Mapping[str, str], cwd: str, *, auto: bool) -> str:
    """Return the instructions in the workspace, and the texts of the user's settings, that reach the model."""
    return "\n".join(filter(None, (_of_workspace(contract, cwd, auto=auto), *_of_user(contract, env, cwd))))


def _of_workspace(contract: EngineContract, cwd: str, *, auto: bool) -> str:
    file, declared = contract.instructions, {d.clause for d in contract.deviations}
    if file is None or "instructions.reach" in declared or (Mode.AUTO if auto else Mode.INTERACTIVE) in file.left_out:
        return ""
    with suppress(OSError, ValueError):
        return Path(cwd, file.path).read_text("utf-8")
    return ""


def _of_user(contract: EngineContract, env: Mapping[str, str], cwd: str) -> Iterator[str]:
    """Yield what shows in a request that a setting is in force, if the contract names it in a file of the setting."""
    for setting in contract.output_settings:
        if setting.shows.sent and setting.env.keys() <= env.keys() and _found(setting.files, env, cwd) is not None:
            found = (re.search(setting.shows.sent, file.content) for file in setting.files)
            yield from (match[0] for match in found if match)


def _is_guarded(contract: EngineContract, argv: Sequence[str], env: Mapping[str, str]) -> bool:
    """Whether the workspace is kept from the engine: by the guards of the contract, or if it has none, as it asks."""
    guards = contract.guards
    if guards.options or guards.env:
        return {*guards.options} <= {*argv} and guards.env.keys() <= env.keys()
    return asks(contract, argv, env)


def asks(contract: EngineContract, argv: Sequence[str], env: Mapping[str, str]) -> bool:
    """Whether the engine got everything that makes it ask before it acts."""
    launch = contract.launch
    passed = {*as_in_contract(tuple(argv), contract)}
    held = {name: as_in_contract((env.get(name, ""),), contract)[0] for name in launch.interactive_env}
    pinned = [launch.interactive, contract.artifacts.options if contract.artifacts else launch.interactive]
    asked = any({*options} <= passed for options in pinned) and held == {**launch.interactive_env}
    return bool((launch.interactive or launch.interactive_env) and asked)


def _show(setting: OutputSetting, values: Mapping[str, str], env: Mapping[str, str]) -> None:
    """Show that a setting of the user is in force, where that takes no request."""
    if setting.shows.started:
        _start(values.get("canary", ""), setting.name, env)
    if setting.shows.collected and (address := values.get("collector")):
        _send("POST", f"{address}/v1/logs", {})


def _redirected(redirect: Redirect, values: Mapping[str, str], world: EngineContext) -> EngineContext:
    """Let a redirect have its effect, and return what the engine's environment is then."""
    match redirect.kind:
        case "address":
            _send("POST", f"{values.get('stranger', '')}/v1/chat/completions", {})
        case "credentials":
            key = {"authorization": f"Bearer {values.get('planted')}"}
            _send("GET", f"{world.env.get(URL_VARIABLE, '')}/v1/models", key)
        case "system-prompt":
            backend, prompt = world.backend, {"role": "system", "content": values.get("marker", "")}

            def reconfigured(request: ModelRequest) -> Answer:
                return backend(structs.replace(request, messages=[prompt, *request.messages]))

            return structs.replace(world, backend=reconfigured)
        case "container":
            _start(shutil.which(_CONTAINER_PROGRAM, path=world.env.get("PATH")) or "", "run", world.env)
        case "program":
            _start(values.get("canary", ""), redirect.name, world.env)
    return world


def _start(program: str, argument: str, env: Mapping[str, str]) -> None:
    with suppress(OSError):
        os.waitpid(os.posix_spawn(program, (program, argument), env), 0)


def _send(method: str, url: str, headers: Mapping[str, str]) -> None:
    import http.client  # noqa: PLC0415 - slow to import, and a workspace seldom redirects an engine

    parts = urlsplit(url)
    with suppress(OSError, http.client.HTTPException):
        connection = http.client.HTTPConnection(parts.hostname or "127.0.0.1", parts.port)
        connection.request(method, parts.path, b"{}" if method == "POST" else None, dict(headers))
        connection.getresponse().read()
        connection.close()


def _offered(canary: Canary, argv: Sequence[str], env: Mapping[str, str], cwd: str) -> str | None:
    """Return the program that is offered; None if something of the offer, or of what it needs, is missing."""
    wanted = (*canary.options, *canary.control.options)
    options = [next(_matches(template, argv), None) for template in wanted]
    values = _found((*canary.files, *canary.control.files), env, cwd)
    if values is None or None in options:
        return None
    return next(filter(None, (*options, values.get("canary"))), None)


def _matches(template: str, texts: Sequence[str]) -> Iterator[str]:
    """Yield the program in each text that has the form of the template, empty if the template names none."""
    for text in texts:
        if (match := _pattern(template).fullmatch(text)) is not None:
            yield match.groupdict().get("canary") or ""


def _found(files: Iterable[SetupFile], env: Mapping[str, str], cwd: str) -> dict[str, str] | None:
    """Return the values of the slots in files that are all there and hold what the contract says; else None."""
    values = dict[str, str]()
    for file in files:
        path = Path(file.path.replace("{work}", cwd).replace("{home}", env.get("HOME", "")))
        try:
            held = _held(file.content, path.read_text("utf-8"), is_json=path.suffix == ".json")
        except (OSError, ValueError):
            return None
        if held is None:
            return None
        values |= held
    return values


def _held(template: str, text: str, *, is_json: bool) -> dict[str, str] | None:
    """Return the values of the slots of a template whose content is part of a text; None: it is not."""
    if is_json:
        return _contained(json.loads(template), json.loads(text))
    match = _pattern(template.strip()).search(text)
    return None if match is None else match.groupdict()


def _contained(template: object, data: object) -> dict[str, str] | None:
    match template, data:
        case dict(), dict():
            parts = [_member(key, value, data) for key, value in template.items()]
        case list(), list():
            found = [
                [held for held in (_contained(one, other) for other in data) if held is not None] for one in template
            ]
            parts = [held[0] if held else None for held in found]
        case str(), str():
            filled = _pattern(template).fullmatch(data)
            return None if filled is None else filled.groupdict()
        case _:
            return {} if template == data else None
    if None in parts:
        return None
    return {name: value for part in parts for name, value in (part or {}).items()}


def _member(key: str, value: object, data: Mapping[str, object]) -> dict[str, str] | None:
    """Return the values of the slots of one member of an object, whose key may have slots too."""
    found = (_contained(value, other) for name, other in data.items() if _pattern(key).fullmatch(name))
    return next((held for held in found if held is not None), None)


def _pattern(template: str) -> re.Pattern[str]:
    seen = set[str]()

    def group(slot: re.Match[str]) -> str:
        name = slot[1]
        if name in ("work", "home"):
            return ".+?"
        again = name in seen
        seen.add(name)
        return f"(?P={name})" if again else f"(?P<{name}>{_VALUE})"

    return re.compile(_SLOT.sub(group, re.escape(template)), re.DOTALL)
