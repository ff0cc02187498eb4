"""Converts the observations of a case to the files of its recordings. Pure: turns and pages in, bytes out."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
import yaml
from msgspec.structs import replace

from turngate import EngineContract
from turngate_probes.harness.observations import CommandOutput, Turn
from turngate_probes.record.placeholders import Replacer, fixed_ids
from turngate_probes.record.requests import (
    MAX_SHORT,
    MAX_TEXTS,
    REQUESTS,
    RecordedRequest,
    approval_signs,
    own_texts,
    shortened,
    tool_name,
)
from turngate_probes.record.structs import LongPrompt, RecordedPage, Recording
from turngate_probes.stub_model import Exchange

Files = dict[str, bytes]


@dataclass(frozen=True, slots=True)
class _Case:
    """What the turns of one case share: the replacement of volatile text, the sent prompts, and the contract.

    A separate replacer measures bodies, so that text that occurs only in them takes no number.
    """

    replacer: Replacer
    measure: Replacer
    prompts: frozenset[str]
    contract: EngineContract


def rendered(
    contract: EngineContract, case: str, seen: Iterable[Turn | CommandOutput], places: Mapping[str, str]
) -> Iterator[tuple[str, Files]]:
    """Return the folder name and the files of each turn and page of one case, without the provenance."""
    seen = tuple(seen)
    turns = [item for item in seen if isinstance(item, Turn)]
    kept = {fixed for turn in turns for fixed in fixed_ids(turn.scripted)}
    replacer, measure = (Replacer(contract, case, places, kept) for _ in range(2))
    shared = _Case(replacer, measure, frozenset(turn.prompt for turn in turns), contract)
    for item in seen:
        yield folder_name(item.name), _files(item, shared) if isinstance(item, Turn) else _page_files(item, replacer)


def folder_name(turn: str) -> str:
    """Return the folder of a turn or page `case/step`."""
    return turn.replace("/", "-")


def to_yaml(data: Mapping[str, Any]) -> bytes:
    """Write YAML in the given order of keys."""
    return yaml.safe_dump(dict(data), sort_keys=False, allow_unicode=True, width=120).encode()


def _files(turn: Turn, case: _Case) -> Files:
    # the order of replacement determines the numbers of placeholders
    replacer = case.replacer
    recording = _recording(turn, replacer)
    streams = {"stdout": replacer.bytes(turn.stdout), "stderr": replacer.bytes(turn.stderr)}
    requests = None if turn.requests is None else _requests(turn.requests, case)
    leftovers = tuple(tuple(replacer(token) for token in left.argv) for left in turn.leftovers)
    recording = replace(recording, leftovers=leftovers, replaced=tuple(replacer.used))
    files = {"recording.yaml": to_yaml(msgspec.to_builtins(recording)), **streams}
    if requests is not None:
        files[REQUESTS] = msgspec.json.Encoder().encode_lines(requests)
    return files


def _page_files(page: CommandOutput, replacer: Replacer) -> Files:
    argv = tuple(replacer(token) for token in page.argv)
    streams = {"stdout": replacer.bytes(page.stdout), "stderr": replacer.bytes(page.stderr)}
    recorded = RecordedPage(
        page=page.name, argv=argv, exit_code=page.exit_code, ended=page.ended, replaced=tuple(replacer.used)
    )
    return {"recording.yaml": to_yaml(msgspec.to_builtins(recorded)), **streams}


def _recording(turn: Turn, replacer: Replacer) -> Recording:
    """Describe a turn, without its leftovers."""
    own = [replacer(token) for token in turn.own_arguments]
    prompt_at = []
    for i, token in enumerate(turn.argv[1:]):
        if own and replacer(token) == own[0]:
            own.pop(0)
        else:
            prompt_at.append(i)
    return Recording(
        turn=turn.name, argv=tuple(replacer(token) for token in turn.argv), prompt_at=tuple(prompt_at),
        stdin=turn.stdin, mode=turn.mode, cwd=replacer(turn.cwd), env=turn.env, turn_index=turn.turn_index,
        resumed=turn.resumed and replacer(turn.resumed), prompt=_prompt(turn.prompt, replacer),
        nonce=replacer(turn.nonce), answer=replacer(turn.scripted), signal=turn.signal, exit_code=turn.exit_code,
        ended=turn.ended, leftovers=(), replaced=(),
    )  # fmt: skip


def _prompt(prompt: str, replacer: Replacer) -> str | LongPrompt:
    short = shortened(prompt)
    if isinstance(short, str):
        return replacer(short)
    # in this order, which determines the numbers of placeholders
    before, repeated, after = (replacer(text) for text in (short.before, short.repeated, short.after))
    return LongPrompt(before, repeated, short.characters, after)


def _requests(exchanges: Iterable[Exchange], case: _Case) -> list[RecordedRequest]:
    """Describe the requests, the agent's main ones first; those that differ only in size are listed once."""
    kept: dict[RecordedRequest, RecordedRequest] = {}
    for exchange in sorted(exchanges, key=lambda sent: (not sent.tools, sent.method, sent.protocol or "")):
        request = _request(exchange, case)
        first = kept.get(request)
        size = len(case.measure.bytes(exchange.body)) if first is None else first.size
        kept[request] = replace(request, size=size, repeated=first is not None)
    return list(kept.values())


def _request(exchange: Exchange, case: _Case) -> RecordedRequest:
    replacer = case.replacer
    return RecordedRequest(
        method=exchange.method,
        path=replacer(exchange.path)[:MAX_SHORT],
        protocol=exchange.protocol,
        model=exchange.model and exchange.model[:MAX_SHORT],
        nonces=tuple(map(replacer, exchange.nonces)),
        tools=tuple(map(tool_name, exchange.tools)),
        user_texts=tuple(map(replacer, [*own_texts(exchange.user_texts, case.prompts)][-MAX_TEXTS:])),
        reply=exchange.reply,
        signs=approval_signs(exchange.body.decode("utf-8", "replace"), case.contract),
    )
