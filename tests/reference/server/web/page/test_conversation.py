"""Tests of how a run is read as a conversation."""

import json

from msgspec.structs import replace

from tests.reference import cli_env as d
from tests.reference.server_env import ASK, ServerEnv, final
from tests.tables import each
from turngate_reference.handle_record import now
from turngate_reference.server.store import runs
from turngate_reference.server.store.events import TextEvent, TurnStartEvent, add_event
from turngate_reference.server.web.page import conversation as talk
from turngate_reference.server.web.page.conversation import (
    TurnMessages,
    conversation,
    heading,
    titled,
    without_envelope,
)
from turngate_reference.states import State

DONE = final(colour="red")


@each(
    "text, left",
    [
        (DONE, ""),
        (f"```json\n{DONE}\n```", ""),
        (f"Painted.\n\n{DONE}", "Painted."),
        (f"Painted {{x}}.\n```json\n{DONE}\n```\n", "Painted {x}."),
        (f'{{"a": {{"outcome": 1}}}} {DONE} Bye.', '{"a": {"outcome": 1}}\n\nBye.'),
        ("No envelope.", "No envelope."),
        ('{"outcome": "final"}', '{"outcome": "final"}'),
    ],
)
def test_an_envelope_is_taken_out(text: str, left: str) -> None:
    """The text around a valid one stays; an invalid one stays as well, since it explains the failure."""
    assert without_envelope(text) == left


def test_a_long_run_is_read_in_pages(server_env: ServerEnv) -> None:
    """Every turn is on exactly one page with its own messages, and each page names its neighbours."""
    server_env.cli_env.engine("codex", d.codex(ASK))
    run_id, _ = server_env.ask()
    store, count = server_env.server.store, 2 * talk.PAGE + 3
    with store.writing() as connection:
        for turn in range(2, count + 1):
            connection.execute(
                "INSERT INTO turns (run_id, turn_index, started_at) VALUES (?, ?, ?)", (run_id, turn, now())
            )
            add_event(connection, run_id, TurnStartEvent(turn))
            add_event(connection, run_id, TextEvent(turn, f"text of {turn}"))
        runs.change(connection, run_id, turn_index=count)
    run, seen = server_env.run(run_id), list[TurnMessages]()
    page = conversation(store, run, None)
    assert page.later is None
    while True:
        seen = page.turns + seen
        if page.earlier is None:
            break
        following = conversation(store, run, page.earlier)
        assert following.later == page.turns[-1].turn.turn_index
        page = following
    assert [part.turn.turn_index for part in seen] == [*range(1, count + 1)]
    assert [[said.text for said in part.messages] for part in seen[1:]] == [
        [f"text of {n}"] for n in range(2, count + 1)
    ]
    assert conversation(store, run, 10**9).later is None


def test_of_many_messages_the_last_are_shown(server_env: ServerEnv) -> None:
    """A turn with too many says so."""
    server_env.cli_env.engine("codex", d.codex(*map(str, range(talk.MAX_MESSAGES + 5)), final(colour="red")))
    run_id = server_env.create(execution_mode="interactive")
    run = server_env.wait(run_id, State.SUCCEEDED)
    (part,) = conversation(server_env.server.store, run, None).turns
    assert part.left_out
    assert part.messages[-1].text == str(talk.MAX_MESSAGES + 4)


def test_a_text_that_is_the_result_is_shown_once(server_env: ServerEnv) -> None:
    """In mode auto, an answer without an envelope is the result."""
    server_env.cli_env.engine("codex", d.codex("I begin.", "All is red."))
    run = server_env.wait(server_env.create(), State.SUCCEEDED)
    assert run.final_data == {"text": "All is red."}
    (part,) = conversation(server_env.server.store, run, None).turns
    assert [said.text for said in part.messages] == ["I begin."]


def test_an_unanswered_question_stays(server_env: ServerEnv) -> None:
    """The open one is shown with its form; when its run was canceled, it is among the messages."""
    server_env.cli_env.engine("codex", d.codex(json.dumps({**json.loads(ASK)})))
    run_id, _ = server_env.ask()
    store = server_env.server.store
    assert conversation(store, server_env.run(run_id), None).turns[0].messages == []
    server_env.server.commands.cancel(run_id)
    (said,) = conversation(store, server_env.run(run_id), None).turns[0].messages
    assert (said.kind, said.text) == ("question", "Which colour?")
    assert said.question
    assert said.question.answered_at is None


@each(
    "prompt, head, below",
    [
        ("\nPaint it.\n", "Paint it.", ""),
        ("Paint it.\n\nSlowly.", "Paint it.", "Slowly."),
        ("x" * 140 + "\ny", "x" * 140, "y"),
        ("word " * 40, ("word " * 12).strip() + " …", ("word " * 40).strip()),
        ("x" * 200, "x" * 60 + " …", "x" * 200),
    ],
)
def test_a_task_has_a_title(prompt: str, head: str, below: str) -> None:
    """It is the first line, with the rest below it; if the line is too long, all is shown once, below its beginning."""
    assert titled(prompt) == (head, below)


def test_a_heading_is_cut_after_a_word() -> None:
    """It is the first line, of a bounded length."""
    assert heading("word " * 40) == ("word " * 28).strip() + " …"
    assert heading("x" * 200, 10) == "x" * 10 + " …"


def test_pieces_of_a_text_are_joined(server_env: ServerEnv) -> None:
    """A kept process may say a text in pieces; an envelope in pieces isn't shown either."""
    server_env.cli_env.engine("codex", d.codex(final(colour="red")))
    run_id = server_env.create(execution_mode="interactive")
    run, store = server_env.wait(run_id, State.SUCCEEDED), server_env.server.store
    with store.writing() as connection:
        for piece in ("I pai", "nt.\n\n", DONE[:20], DONE[20:]):
            add_event(connection, run_id, TextEvent(1, piece))
        connection.execute("DELETE FROM events WHERE type = 'text' AND json_extract(data_json, '$.text') = ?", (DONE,))
    kept = replace(run, engine="gemini", engine_version="0.61.0", profile=runs.RunProfile("sticky_process", ""))
    (part,) = conversation(store, kept, None).turns
    assert [said.text for said in part.messages] == ["I paint."]
    (part,) = conversation(store, run, None).turns
    assert len(part.messages) == 4
