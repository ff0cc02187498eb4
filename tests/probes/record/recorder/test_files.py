"""Turns become files of a recording, without running anything."""

import json
from typing import Any

import yaml
from msgspec.structs import replace

from tests.probes import turns
from tests.probes.turns import ANOTHER, CODEX, SESSION
from turngate_probes.harness.cases import FILLER
from turngate_probes.harness.observations import Turn
from turngate_probes.record.recorder import first_number, rendered
from turngate_probes.record.requests import CUT, MARK

FIRST = f"00000000-0000-7000-8000-{first_number('main') + 1:012d}"
SECOND = f"00000000-0000-7000-8000-{first_number('main') + 2:012d}"


def files(*observed: Turn, places: dict[str, str] | None = None) -> dict[str, dict[str, bytes]]:
    """Render turns of the case main."""
    return dict(rendered(CODEX, "main", observed, places or {}))


def requests(turn: Turn) -> list[dict[str, Any]]:
    """Render one turn and read its requests back."""
    (rendered_files,) = files(turn).values()
    return [json.loads(line) for line in rendered_files["requests.ndjson"].splitlines()]


def test_ids_agree_between_the_files_and_turns_of_a_case() -> None:
    """The session id that one turn prints is the one that the next turn resumes."""
    written = files(turns.turn("main/first"), turns.resumed("main/again", "main/first", stdout=turns.printed(ANOTHER)))
    assert list(written) == ["main-first", "main-again"]
    assert FIRST.encode() in written["main-first"]["stdout"]
    again = yaml.safe_load(written["main-again"]["recording.yaml"])
    assert again["resumed"] == FIRST
    assert SECOND.encode() in written["main-again"]["stdout"]
    assert SESSION.encode() not in b"".join(written["main-first"].values())


def test_the_prompt_is_told_from_our_own_arguments() -> None:
    """Indexes of the prompt count from the first argument after the executable."""
    turn = turns.turn("main/first", argv=("/x/codex", "exec", "--", "hi"), own_arguments=("exec", "--"))
    (written,) = files(turn, places={"/x/codex": "codex"}).values()
    described = yaml.safe_load(written["recording.yaml"])
    assert described["argv"] == ["codex", "exec", "--", "hi"]
    assert described["prompt_at"] == [2]


def test_a_supplied_file_is_no_prompt() -> None:
    """The path of a file that the contract supplies is an argument of its own, written as in the contract."""
    argv = ("/x/codex", "--rules", "/cache/0f/ask.toml", "hi")
    turn = turns.turn("main/first", argv=argv, own_arguments=("--rules", "{files}/ask.toml"))
    (written,) = files(turn, places={"/x/codex": "codex", "/cache/0f": "{files}"}).values()
    described = yaml.safe_load(written["recording.yaml"])
    assert described["argv"] == ["codex", "--rules", "{files}/ask.toml", "hi"]
    assert described["prompt_at"] == [2]


def test_what_nobody_watched_has_no_requests() -> None:
    """A turn without a model backend has no list of requests, rather than an empty one."""
    (unwatched,) = files(turns.turn("main/first", requests=None)).values()
    (silent,) = files(turns.turn("main/first", requests=())).values()
    assert "requests.ndjson" not in unwatched
    assert silent["requests.ndjson"] == b""


def test_retries_are_one_request_that_is_marked() -> None:
    """Requests that differ only in volatile text are recorded once, marked as repeated."""
    one = turns.exchange("tgn-0000000000000001", body=b'{"at": "2026-11-21T10:00:00"}')
    two = replace(one, at=2.0, body=b'{"at": "2026-11-21T10:00:09"}')
    other = replace(one, reply="refuse 500")
    written = requests(turns.turn("main/first", requests=(one, two, other)))
    assert [request.get("repeated", False) for request in written] == [True, False]
    assert [request["reply"] for request in written] == ["text", "refuse 500"]


def test_requests_that_run_beside_the_agents_come_last() -> None:
    """The engine's background requests are recorded after those of the agent, in whichever order they arrived."""
    main, title = turns.exchange(), turns.exchange(tools=())
    reported = requests(turns.turn("main/first", requests=(title, main)))
    assert reported == requests(turns.turn("main/first", requests=(main, title)))
    assert [request["tools"] for request in reported] == [["shell"], []]


def test_of_a_request_nothing_is_kept_that_the_engine_wrote() -> None:
    """A recorded request keeps our own texts, the size of its body and its signs of approval.

    A very long prompt becomes a mark.
    """
    prompt = f"a {FILLER * 3000}z"
    body = b'{"system": "You are a coding agent. sandbox_mode is read-only. On 2026-11-21 you ..."}'
    request = turns.exchange(texts=("# AGENTS.md instructions", f"<reminder>\n{prompt}"), body=body)
    (kept,) = requests(turns.turn("main/first", prompt=prompt, requests=(request,)))
    assert kept["user_texts"] == [f"{CUT}\n{MARK}"]
    assert kept["signs"] == ["sandbox_mode is read-only"]
    assert kept["size"] == len(body)
    assert kept.keys() <= {
        "method",
        "path",
        "protocol",
        "model",
        "nonces",
        "tools",
        "user_texts",
        "reply",
        "signs",
        "size",
    }


def test_prompts_of_earlier_turns_are_ours() -> None:
    """A resumed turn sends earlier prompts again, and the recording keeps them."""
    first = turns.turn("main/first")
    again = turns.resumed("main/again", requests=(turns.exchange(texts=(first.prompt, "summary", "Ask me. main")),))
    written = files(first, again)["main-again"]["requests.ndjson"]
    assert json.loads(written)["user_texts"] == [first.prompt]


def test_the_size_is_the_same_each_time() -> None:
    """The size of a request is measured after volatile text is replaced, so it is the same in every run."""
    one = turns.exchange(body=b"/tmp/a/b/c asks")
    two = turns.exchange(body=b"/tmp/another/place asks")
    sizes = set()
    for exchange, place in ((one, "/tmp/a/b/c"), (two, "/tmp/another/place")):
        (rendered_files,) = files(turns.turn("main/first", requests=(exchange,)), places={place: "<sandbox>"}).values()
        sizes.add(json.loads(rendered_files["requests.ndjson"])["size"])
    assert sizes == {len("<sandbox> asks")}
