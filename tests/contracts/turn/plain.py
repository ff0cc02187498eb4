"""A plain reading of a turn that prints a record per line: it parses every line and follows every path."""

import json
import re
from collections import Counter
from typing import Any

import orjson

from turngate.contract.engine_contract import EngineContract
from turngate.contract.values import Match

NONE = object()


def at(record: Any, path: str) -> Any:
    """Follow a path step by step."""
    for step in path.split("."):
        if isinstance(record, dict):
            record = record.get(step)
        elif isinstance(record, list) and step.lstrip("-").isdigit() and -len(record) <= int(step) < len(record):
            record = record[int(step)]
        else:
            return None
    return record


def records(stdout: bytes) -> tuple[list[dict[str, Any]], int]:
    """Return the objects that stand on a line each, and how many lines have something else on them."""
    found, problems = [], 0
    for line in stdout.split(b"\n"):
        record = parsed(line)
        if isinstance(record, dict):
            found.append(record)
        bare = isinstance(record, dict) and line.startswith(b"{") and line.removesuffix(b"\r").endswith(b"}")
        bare = bare and line.decode("utf-8", "replace").encode() == line
        problems += bool(line.strip()) and not bare
    return found, problems


def parsed(line: bytes) -> Any:
    """Parse a line, with a replacement for what is no character; None if it isn't JSON."""
    text = line.decode("utf-8", "replace")
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        if "\\ud" not in text.lower():
            return None
    try:
        value = json.loads(text)
    except ValueError:
        return None
    return json.loads(re.sub("[\ud800-\udfff]", "\ufffd", json.dumps(value, ensure_ascii=False)))


def plain(
    contract: EngineContract, stdout: bytes
) -> tuple[dict[str, int], bool, int, str | None, list[tuple[int, object]]]:
    """Return the census, whether the turn ended, the number of failures, the answer, and the ids with their indexes."""
    census, ended, failures, ids = Counter[str](), False, 0, list[tuple[int, object]]()
    answer: str | None = None
    group: object = NONE
    index, is_lost, is_torn = -1, False, False
    field, final = contract.events.field or "", contract.final
    for line in stdout.split(b"\n"):
        record = parsed(line)
        if not isinstance(record, dict):
            if record is None and b'{"' in line:
                is_lost = is_torn = True
            continue
        index += 1

        def holds(match: Match | None, record: Any = record) -> bool:
            return all(at(record, path) == value for path, value in (match or {}).items())

        census[str(at(record, field))] += 1
        ended |= holds(contract.end.match)
        failures += any(holds(sign.match) and (not sign.has or at(record, sign.has)) for sign in contract.failures)
        value = at(record, contract.handle.field) if holds(contract.handle.match) else None
        if value is not None and value not in [known for _, known in ids[-1:]]:
            ids.append((index, value))
        text = at(record, final.field or "") if holds(final.match) else None
        if isinstance(text, str):
            before, group = group, at(record, final.group) if final.group else None
            group = group if isinstance(group, str | int) else None
            if group is not None and group == before:
                answer = (answer or "") + text
            else:
                answer, is_lost, is_torn = text, is_torn and group is not None, False
    # blank is no answer, nor is one that may lack something
    return dict(census), ended, failures, answer if answer and answer.strip() and not is_lost else None, ids
