"""What a user's home, a workspace and a prompt bring about in a simulated engine, as its contract says of the real one.

An entry of the contract has its effect where all of its files and options are there and nothing guards the engine, or
where a deviation says that the guard fails. The files may hold more than the entry's: what another entry, or the
sandbox, has put there.
"""

import json
import os
import re
import shutil
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from glob import escape, glob
from itertools import pairwise, takewhile
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from msgspec import structs

from turngate import ContractError, EngineContract, Mode
from turngate.argv.file_slot import as_in_contract
from turngate.contract.home_and_workspace import Canary, OutputSetting, Redirect, SetupFile
from turngate.contract.simulation import ApprovalFile, MergedSettings, SettingsLayer
from turngate_probes.simulate.arguments import spread
from turngate_probes.simulate.backend import URL_VARIABLE, Answer, EngineContext, ModelRequest
from turngate_probes.simulate.printing import simulation

_CONTAINER_PROGRAM = "docker"
# what a probe puts into the slots of an entry's files; none of it contains a quote, a bracket or white space
_SLOT = re.compile(r"\\\{(work|home|canary|stranger|planted|marker|collector)\\\}")
_VALUE = r"[^\s\"',\[\]{}]+"
_STRING = r'("(?:\\.|[^"\\])*")'
_COMMENT, _LAST_COMMA = rf"(?s){_STRING}|//[^\n]*|/\*.*?\*/", rf"{_STRING}|,(?=\s*[\]}}])"


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
    if _asks(contract, argv, env) or simulation(contract).arguments.no_settings in argv:
        return False
    return any(
        setting.env.items() <= env.items() and _found(setting.files, env, cwd) is not None
        for setting in contract.approval_settings
    )


def approving(
    contract: EngineContract,
    argv: Sequence[str],
    env: Mapping[str, str],
    cwd: str,
    options: Collection[str] | None,
    *,
    kept: bool = False,
) -> tuple[str, ...]:
    """Return what lets the engine act without asking, apart from its options: files, or that nothing makes it ask.

    `options` are those that the arguments have; None: a client of a process for several turns may choose more.
    `kept`: it may choose others for each turn, such as an agent that asks.
    """
    simulated = simulation(contract)
    ignored = simulated.arguments.no_settings in (options or ())
    places = {"work": cwd, "root": str(_repository(Path(cwd)) or cwd), "HOME": env.get("HOME", "")}
    slots = {**env, **places, **_option_values(argv)}
    for name, usual in (contract.store.locations if contract.store else {}).items():
        slots[name] = env.get(name) or usual.format_map(slots)
    asked = _asks(contract, argv, env)
    in_force = (
        one
        for one in simulated.approval_files
        if (one.outranks or not ignored)
        and not asked
        and (one.unless is None or (one.outranks if options is None else one.unless not in options))
    )
    files = dict.fromkeys(found for one in in_force for found in _settings(one, slots))
    merged = simulated.asks_as_set
    source = _acts_as_set(merged, slots) if merged else None
    may_ask = kept and merged is not None and _acts_as_set(merged, slots, any_choice=True) is None
    if source is not None and not may_ask:
        by_itself = (f"{contract.title} by itself",) if options is not None else ()
        return (*files, *((source,) if source else by_itself))
    return tuple(files)


def _acts_as_set(merged: MergedSettings, slots: Mapping[str, str], *, any_choice: bool = False) -> str | None:
    """Return what lets the engine act: settings, or empty if it does so by itself; None: it asks before each act.

    `any_choice`: as with any values of the options.
    """
    given = slots
    slots = {name: usual.format_map(given) for name, usual in merged.usual.items()} | {**given}
    held, undecided = dict[str, Any](), tuple[bool | None, str]((None, ""))
    decided = dict.fromkeys(merged.decide, undecided)
    for layer in merged.layers:
        for source, settings in _in_layer(layer, slots):
            held = _over(held, settings, merged.whole)
            lines = [*_values(held, ordered=list)]
            slots |= {name: str(held[key]) for name, key in merged.set_by.items() if key in held and name not in given}
            for act, keys in merged.decide.items():
                acts = _decision([_filled(key, slots, any_choice=any_choice) for key in keys], lines)
                if acts is not decided[act][0]:
                    decided[act] = acts, source
    return max((source for acts, source in decided.values() if acts is not False), default=None)


def _decision(patterns: Sequence[str], lines: Sequence[str]) -> bool | None:
    """Return whether settings let the engine do something: as the last of the strongest says; None: none says."""
    for pattern in reversed(patterns):
        if found := [match for match in (re.match(f"(?:{pattern}) = (.*)", line) for line in lines) if match]:
            return found[-1][found[-1].re.groups] in ('"allow"', "true")
    return None


def _over(under: Mapping[str, Any], settings: Mapping[str, Any], whole: Collection[str]) -> dict[str, Any]:
    """Return settings merged into others; a text is the value of `*` in a key that is `whole`."""
    merged = {**under}
    for key, given in settings.items():
        value = {"*": given} if key in whole and isinstance(given, str) else given
        before = merged.get(key)
        merged[key] = (
            _over(before if isinstance(before, dict) else {}, value, whole) if isinstance(value, dict) else value
        )
    return merged


def _in_layer(layer: SettingsLayer, slots: Mapping[str, str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield each source of a layer with its settings, unless it has none."""
    if layer.unless and slots.get(layer.unless, "").lower() in ("1", "true"):
        return
    work = Path(slots["work"])
    directories = [work, *work.parents] if layer.above else [work]
    if layer.above and (root := _repository(work)):
        del directories[directories.index(root) + 1 :]
    for directory in reversed(directories) if layer.above == "before" else directories:
        for source, text in _texts(layer.path, {**slots, "work": str(directory)}):
            if (settings := _read(text, Path(source).suffix)) is not None:
                for key in reversed(layer.below.format(stem=Path(source).stem).split(".") if layer.below else ()):
                    settings = {key: settings}
                yield source, settings


def _repository(directory: Path) -> Path | None:
    """Return the directory of the repository that a directory is in; None: it is in none."""
    return next((folder for folder in (directory, *directory.parents) if (folder / ".git").exists()), None)


def _option_values(argv: Sequence[str]) -> dict[str, str]:
    """Return what follows each long option, whether or not the option takes a value."""
    return {name: value for name, value in pairwise(spread(argv)) if name.startswith("--")}


def _settings(one: ApprovalFile, slots: Mapping[str, str]) -> Iterator[str]:
    """Yield the files that have these settings, and the variable that has them as its value."""
    wanted = _filled(one.found, slots)
    for source, text in _texts(one.path, slots):
        settings = _read(text, Path(source).suffix)
        if re.search(wanted, text if settings is None else "\n".join(_values(settings))):
            yield source


def _filled(pattern: str, slots: Mapping[str, str], *, any_choice: bool = False) -> str:
    """Return a pattern of the contract with the directories and the values of options, or any values, in it."""
    if any_choice:
        pattern = re.sub(r"\{--[\w-]+\}", "[^.]+", pattern)
    return re.sub(r"\{(work|root|--[\w-]+)\}", lambda slot: re.escape(slots.get(slot[1], slot[0])), pattern)


def _texts(path: str, slots: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the variable that a path names, and its files, each with its text."""
    if path.endswith("}") and path[1:-1] in slots:
        yield path[1:-1], slots[path[1:-1]]
    with suppress(OSError, ValueError, KeyError):
        for file in sorted(glob(path.format_map({name: escape(value) for name, value in slots.items()}))):  # noqa: PTH207 - the pattern is absolute
            yield file, Path(file).read_text("utf-8")


def _read(text: str, suffix: str) -> dict[str, Any] | None:
    """Return the settings in TOML, in Markdown, or in JSON with comments; None if they can't be read."""
    with suppress(ValueError, ContractError):
        match suffix:
            case ".toml":
                held: object = _toml(text)
            case ".md":
                held = _front_matter(text)
            case _:
                held = json.loads(re.sub(_LAST_COMMA, r"\1", re.sub(_COMMENT, r"\1", text)))
        return held if isinstance(held, dict) else None
    return None


def _toml(text: str) -> dict[str, Any]:
    import tomllib  # noqa: PLC0415 - slow to import, and few homes have such files

    return tomllib.loads(text)


def _front_matter(text: str) -> object:
    from turngate.contract.yaml_text import read_yaml  # noqa: PLC0415 - slow to import, and few homes have such files

    lines = text.splitlines()
    if lines[:1] != ["---"]:
        return None
    return read_yaml("\n".join(takewhile(lambda line: line != "---", lines[1:])), "", ours=False)[0]


def _values(
    table: Mapping[str, Any], within: str = "", ordered: Callable[[Iterable[Any]], list[Any]] = sorted
) -> Iterator[str]:
    """Yield the values in a table and in those in it as lines with the whole key, in the order of the keys."""
    for key, value in ordered(table.items()):
        inner = value
        if isinstance(value, list) and value and isinstance(value[0], dict):
            inner = {f"{number}": one for number, one in enumerate(value)}
        if isinstance(inner, dict):
            yield from _values(inner, f"{within}{key}.", ordered)
        else:
            yield f"{within}{key} = {json.dumps(value, default=str, ensure_ascii=False)}"


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
    return _asks(contract, argv, env)


def _asks(contract: EngineContract, argv: Sequence[str], env: Mapping[str, str]) -> bool:
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
