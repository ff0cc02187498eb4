"""Turns what was seen of a case into the files of its recordings. Pure: turns in, bytes out."""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import yaml

from turngate.contract import EngineContract
from turngate_probes.observe import Turn
from turngate_probes.record.long import LONG, MARK, shortened
from turngate_probes.record.replace import Replacer, fixed_ids
from turngate_probes.stub_model import Exchange

SCHEMA = "turngate.recording/1"
MAX_TEXT = 1000
MAX_TEXTS = 12
MAX_BODY = 300
CUT = "[…]"
_MARGIN = 4000

Files = dict[str, bytes]


def rendered(
    contract: EngineContract, case: str, turns: Iterable[Turn], places: Mapping[str, str]
) -> Iterator[tuple[str, Files]]:
    """Give the folder name and the files of each turn of one case, all but the provenance."""
    turns = tuple(turns)
    kept = {each for turn in turns for each in fixed_ids(turn.scripted)}
    replacer = Replacer(contract, case, places, kept)
    for turn in turns:
        yield folder_name(turn.name), _files(turn, replacer)


def folder_name(turn: str) -> str:
    """Name the folder of a turn `case/step`."""
    return turn.replace("/", "-")


def to_yaml(data: Mapping[str, Any]) -> bytes:
    """Write YAML in the given order of keys."""
    return yaml.safe_dump(dict(data), sort_keys=False, allow_unicode=True, width=120).encode()


def _files(turn: Turn, replacer: Replacer) -> Files:
    # the order in which texts are replaced decides how placeholders are numbered
    described = _described(turn, replacer)
    streams = {"stdout": replacer.bytes(turn.stdout), "stderr": replacer.bytes(turn.stderr)}
    requests = _requests(turn, replacer)
    leftovers = [[replacer(token) for token in left.argv] for left in turn.leftovers]
    described |= {"leftovers": leftovers, "replaced": replacer.used}
    files = {"recording.yaml": to_yaml(described), **streams}
    if requests is not None:
        files["requests.ndjson"] = b"".join(json.dumps(each, ensure_ascii=False).encode() + b"\n" for each in requests)
    return files


def _described(turn: Turn, replacer: Replacer) -> dict[str, Any]:
    own = list(turn.own_arguments)
    prompt_at = []
    for i, token in enumerate(turn.argv[1:]):
        if own and token == own[0]:
            own.pop(0)
        else:
            prompt_at.append(i)
    return {
        "schema": SCHEMA,
        "turn": turn.name,
        "argv": [replacer(token) for token in turn.argv],
        "prompt_at": prompt_at,
        "stdin": turn.stdin,
        "mode": turn.mode.value,
        "cwd": replacer(turn.cwd),
        "env": list(turn.env),
        "turn_index": turn.turn_index,
        "resumed": turn.resumed and replacer(turn.resumed),
        "prompt": _prompt(turn.prompt, replacer),
        "nonce": replacer(turn.nonce),
        "answer": replacer(turn.scripted),
        "signal": turn.signal,
        "exit_code": turn.exit_code,
        "ended": turn.ended.value,
    }


def _prompt(prompt: str, replacer: Replacer) -> object:
    found = shortened(prompt)
    if isinstance(found, str):
        return replacer(found)
    return {key: replacer(each) if isinstance(each, str) else each for key, each in found.items()}


def _requests(turn: Turn, replacer: Replacer) -> list[dict[str, Any]] | None:
    """Describe the requests: each once, the agent's own before those that run beside them."""
    if turn.requests is None:
        return None
    found: dict[str, dict[str, Any]] = {}
    for exchange in sorted(turn.requests, key=lambda each: (not each.tools, each.method, each.protocol or "")):
        request = _request(exchange, turn.prompt, replacer)
        same = found.setdefault(json.dumps(request), request)
        if same is not request:
            same["repeated"] = True
    return list(found.values())


def _request(exchange: Exchange, prompt: str, replacer: Replacer) -> dict[str, Any]:
    texts = [text.replace(prompt, MARK) if len(prompt) > LONG else text for text in exchange.user_texts[-MAX_TEXTS:]]
    return {
        "method": exchange.method,
        "path": replacer(exchange.path),
        "protocol": exchange.protocol,
        "model": exchange.model,
        "nonces": [replacer(each) for each in exchange.nonces],
        "tools": list(exchange.tools),
        "user_texts": [_excerpt(text, replacer, MAX_TEXT) for text in texts],
        "reply": exchange.reply,
        "body": replacer(exchange.body[:_MARGIN].decode("utf-8", "backslashreplace"))[:MAX_BODY],
    }


def _excerpt(text: str, replacer: Replacer, limit: int) -> str:
    """Replace and bound a text; of a long one only the ends are looked at."""
    if len(text) <= 2 * _MARGIN:
        head = tail = replacer(text)
        if len(head) <= limit:
            return head
    else:
        head, tail = replacer(text[:_MARGIN]), replacer(text[-_MARGIN:])
    return f"{head[: limit // 2]}{CUT}{tail[-(limit // 2) :]}"
