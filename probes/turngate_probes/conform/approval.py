"""What lets an engine act without asking, apart from its arguments: settings files and variables.

Most engines have files that let them act, wherever one of these holds what the contract names. An engine that acts
unless it is told to ask merges its settings instead, and only what they say in the end decides. `MergedSettings` of the
simulation describes this: settings of all layers are merged in order, a value that is replaced keeps its place, and of
the entries that fit an action the last one decides. The key that decided, and its place, is what the orchestrator is
told.
"""

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from glob import escape, glob
from itertools import pairwise, takewhile
from pathlib import Path
from typing import Any

from turngate import ContractError, EngineContract
from turngate.contract.simulation import ApprovalFile, MergedSettings, SettingsLayer
from turngate.files import read_regular, repository_of
from turngate_probes.simulate.arguments import spread
from turngate_probes.simulate.printing import simulation
from turngate_probes.simulate.settings_effects import asks

_STRING = r'("(?:\\.|[^"\\])*")'
_COMMENT, _LAST_COMMA = rf"(?s){_STRING}|//[^\n]*|/\*.*?\*/", rf"{_STRING}|,(?=\s*[\]}}])"


def approving(
    contract: EngineContract,
    argv: Sequence[str],
    env: Mapping[str, str],
    cwd: str,
    options: Mapping[str, str | None] | None,
    *,
    kept: bool = False,
) -> tuple[str, ...]:
    """Return what lets the engine act without asking, apart from its options: settings, or that nothing makes it ask.

    `options` are those that the arguments have, with their values; None: a client of a process for several turns may
    choose more.
    `kept`: it may choose others for each turn, such as an agent that asks.
    """
    simulated = simulation(contract)
    ignored = simulated.arguments.no_settings in (options or ())
    places = {"work": cwd, "root": str(repository_of(Path(cwd)) or cwd), "HOME": env.get("HOME", "")}
    given = {name: value for name, value in (options or {}).items() if value is not None}
    slots = {**env, **places, **_option_values(argv), **given}
    for name, usual in (contract.store.locations if contract.store else {}).items():
        slots[name] = env.get(name) or usual.format_map(slots)
    asked = asks(contract, argv, env)
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
                acts, key = _decision([_filled(key, slots, any_choice=any_choice) for key in keys], lines)
                if acts is not decided[act][0]:
                    decided[act] = acts, f"{key} in {source}"
    return max((source for acts, source in decided.values() if acts is not False), default=None)


def _decision(patterns: Sequence[str], lines: Sequence[str]) -> tuple[bool | None, str]:
    """Return whether settings let the engine do something, as the last of the strongest says, and its key.

    None: none says.
    """
    for pattern in reversed(patterns):
        if found := [match for match in (re.match(f"(?:{pattern}) = (.*)", line) for line in lines) if match]:
            return found[-1][found[-1].re.groups] in ('"allow"', "true"), _key(found[-1].string)
    return None, ""


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
    if layer.above and (root := repository_of(work)):
        del directories[directories.index(root) + 1 :]
    for directory in reversed(directories) if layer.above == "before" else directories:
        for source, text in _texts(layer.path, {**slots, "work": str(directory)}):
            if (settings := _read(text, Path(source).suffix)) is not None:
                for key in reversed(layer.below.format(stem=Path(source).stem).split(".") if layer.below else ()):
                    settings = {key: settings}
                yield source, settings


def _option_values(argv: Sequence[str]) -> dict[str, str]:
    """Return what follows each long option, whether or not the option takes a value."""
    return {name: value for name, value in pairwise(spread(argv)) if name.startswith("--")}


def _settings(one: ApprovalFile, slots: Mapping[str, str]) -> Iterator[str]:
    """Yield the keys that have these settings, each with its file, or with the variable that has them as its value."""
    wanted, over = _filled(one.found, slots), [*_lines(one.over, slots)]
    replaced = {_key(line) for _, lines in over for line in lines}
    for source, lines in [*_lines(one.path, slots)] or [("", [])]:
        under = [line for line in lines if _key(line) not in replaced]
        placed = [(line, place) for place, several in (*over, (source, under)) for line in several]
        text = "\n".join(line for line, _ in placed)
        if match := re.search(wanted, text):
            line, place = placed[text.count("\n", 0, match.end())]
            yield f"{_key(line)} in {place}"


def _lines(path: str, slots: Mapping[str, str]) -> Iterator[tuple[str, list[str]]]:
    """Yield what a path names, each with its settings as lines, or with its own lines if they can't be read."""
    for source, text in _texts(path, slots):
        settings = _read(text, Path(source).suffix)
        yield source, text.splitlines() if settings is None else [*_values(settings)]


def _key(line: str) -> str:
    """Return the key of a setting, or the name of a call in a file with rules."""
    found = re.match(r"\s*\w+(?=\()|.*?(?= = )|.*", line)
    return found[0].strip() if found else ""


def _filled(pattern: str, slots: Mapping[str, str], *, any_choice: bool = False) -> str:
    """Return a pattern of the contract with the directories and the values of options, or any values, in it."""
    if any_choice:
        pattern = re.sub(r"\{--[\w-]+\}", "[^.]+", pattern)
    return re.sub(r"\{(work|root|--[\w-]+)\}", lambda slot: re.escape(slots.get(slot[1], slot[0])), pattern)


def _texts(path: str, slots: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield the variable that a path names, and its files, each with its text."""
    if path.endswith("}") and path[1:-1] in slots:
        yield path[1:-1], slots[path[1:-1]]
    try:
        files = glob(path.format_map({name: escape(value) for name, value in slots.items()}))  # noqa: PTH207 - the pattern is absolute
    except KeyError:  # nothing has this name
        return
    for file in sorted(files):
        with suppress(OSError, ValueError):
            yield file, read_regular(Path(file)).decode()


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
