"""Tests of server-sent events over real sockets."""

import json
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from unittest import mock

import pytest

from tests.patience import PATIENCE
from tests.reference import cli_env as d
from tests.reference.caller import Caller
from tests.reference.cli_env import CliEnv
from tests.reference.server_env import ASK, ServerEnv
from tests.reference.wire import Following, Sent, exchange, following, served
from turngate_reference.data_dir import DataDir
from turngate_reference.server.app import Server
from turngate_reference.server.store import runs
from turngate_reference.server.store.database import Store
from turngate_reference.server.store.events import ReplyEvent, StoredEvent, TextEvent, add_event
from turngate_reference.server.web.streams import EventStreams, as_lines


class Watched(EventStreams):
    """EventStreams that signal when a stream was left."""

    def __init__(self, limit: int = 4, heartbeat: float = 1000.0) -> None:
        super().__init__(limit, heartbeat=heartbeat, tick=0.02)
        self.left = threading.Event()

    def leave(self, place: object) -> None:
        """Free a place, and signal it."""
        super().leave(place)
        self.left.set()


@pytest.fixture(name="caller")
def _caller(closed_server_env: ServerEnv) -> Iterator[Caller]:
    """Provide a client of a server that accepts runs but starts none, so that tests decide what happens."""
    closed_server_env.cli_env.engine("codex", d.codex(ASK))
    server = Server(closed_server_env.settings)
    yield Caller(server, streams=Watched())
    server.close()


def queued(caller: Caller) -> tuple[str, str]:
    """Create a run that stays queued; return its id and the path of its events."""
    links = caller.post("/v1/runs", {"engine": "codex", "prompt": "x"}).json["links"]
    return links["self"].rpartition("/")[2], links["events"]


def tell(caller: Caller, run_id: str, *texts: str) -> None:
    """Add text events to a run."""
    for text in texts:
        with caller.core.store.writing() as connection:
            add_event(connection, run_id, TextEvent(1, text))


def texts(events: list[Sent]) -> list[str]:
    """Return the texts of the events."""
    return [event.data["text"] for event in events if event.type == "text"]


def test_a_stream_replays_and_ends_with_the_run(caller: Caller) -> None:
    """All events are sent in order with growing ids, and the end of the run ends the stream."""
    run_id, path = queued(caller)
    tell(caller, run_id, *map(str, range(250)))  # more than is read at once
    caller.post(f"/v1/runs/{run_id}/cancel")
    with served(caller) as port, following(port, path) as stream:
        assert stream.response.headers["Content-Type"] == "text/event-stream; charset=utf-8"
        events = stream.all()
    assert texts(events) == [str(i) for i in range(250)]
    assert [event.id for event in events] == sorted({event.id for event in events})
    assert [event.data["state"] for event in events if event.type == "state"] == ["queued", "canceled"]
    assert all(event.data["at"] for event in events)


def test_a_stream_tells_what_another_process_writes(caller: Caller, cli_env: CliEnv) -> None:
    """What a terminal does to a run reaches the server's clients, although nothing wakes the server."""
    run_id, path = queued(caller)
    elsewhere = Store(DataDir(cli_env.data).database)
    with served(caller) as port, following(port, path) as stream, closing(elsewhere):
        assert stream.next()
        with elsewhere.writing() as connection:
            add_event(connection, run_id, ReplyEvent("1", terminal=True))
        assert (reported := stream.next())
        assert reported.data["terminal"] is True


def test_a_stream_goes_on_where_the_client_was(caller: Caller) -> None:
    """Events that the client has seen are not sent again; the header wins over the parameter."""
    run_id, path = queued(caller)
    tell(caller, run_id, "a", "b", "c")
    caller.post(f"/v1/runs/{run_id}/cancel")
    with served(caller) as port:
        with following(port, path) as stream:
            ids = {event.data.get("text"): event.id for event in stream.all()}
        with following(port, path, Last_Event_ID=str(ids["b"])) as stream:
            assert texts(stream.all()) == ["c"]
        with following(port, f"{path}?last_event_id={ids['a']}") as stream:
            assert texts(stream.all()) == ["b", "c"]
        with following(port, f"{path}?last_event_id={ids['a']}", Last_Event_ID=str(ids["b"])) as stream:
            assert texts(stream.all()) == ["c"]


def test_who_has_seen_the_end_is_told_to_stop(caller: Caller) -> None:
    """A browser reconnects whenever a stream ends; a 204 makes it stop."""
    run_id, path = queued(caller)
    caller.post(f"/v1/runs/{run_id}/cancel")
    with served(caller) as port:
        with following(port, path) as stream:
            last = stream.all()[-1].id
        with following(port, path, Last_Event_ID=str(last)) as stream:
            assert (stream.response.status, stream.response.read()) == (204, b"")


def test_a_stream_tells_what_happens_as_it_happens(caller: Caller) -> None:
    """Events arrive while the stream is open, and only those of the followed run."""
    run_id, path = queued(caller)
    other, _ = queued(caller)
    with served(caller) as port, following(port, path) as stream:
        first = stream.next()
        assert first
        assert first.data["state"] == "queued"
        tell(caller, other, "not this")
        tell(caller, run_id, "one\nline", "\u2028and\rmore")
        assert [(e := stream.next()) and e.data["text"] for _ in range(2)] == ["one\nline", "\u2028and\rmore"]
        caller.post(f"/v1/runs/{run_id}/cancel")
        assert [event.data["state"] for event in stream.all()] == ["canceled"]


def test_an_open_page_gets_news(caller: Caller) -> None:
    """A page of all runs gets state changes, a page of one run all its events; reconnecting skips none."""
    run_id, _ = queued(caller)
    other, _ = queued(caller)
    after = runs.last_event_id(caller.core.store)
    with (
        served(caller) as port,
        following(port, f"/live?after={after}") as every,
        following(port, f"/live?after={after}&run={run_id}") as one,
    ):
        tell(caller, other, "not this")
        tell(caller, run_id, "this")
        assert (reported := one.next())
        assert (reported.type, reported.id) == ("news", runs.last_event_id(caller.core.store))
        caller.post(f"/v1/runs/{other}/cancel")
        assert (news := every.next())
        assert (news.type, news.id) == ("news", runs.last_event_id(caller.core.store))
        with following(port, "/live?after=0", Last_Event_ID=str(after)) as again:
            assert (missed := again.next())
            assert missed.id == news.id


def test_silent_news_say_something_and_end_with_the_store(
    caller: Caller, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A news stream sends heartbeats and ends when the store fails, like any other stream."""
    caller.streams.heartbeat = 0.04
    with served(caller) as port, following(port, "/live") as stream:
        while ": heartbeat" not in (line := stream.line()):
            assert line

        def broken(*_: object) -> None:
            raise sqlite3.OperationalError("disk I/O error")

        monkeypatch.setattr(runs, "progress", broken)
        assert stream.next() is None
    assert "a stream of updates ended: disk I/O error" in caplog.text


def test_a_silent_stream_says_something_now_and_then(caller: Caller) -> None:
    """A comment keeps the connection alive through proxies."""
    _, path = queued(caller)
    caller.streams.heartbeat = 0.04
    with served(caller) as port, following(port, path) as stream:
        while ": heartbeat" not in (line := stream.line()):
            assert line


def test_streams_are_bounded(caller: Caller) -> None:
    """Beyond the limit, the answer is 503; other requests still work, and a closed stream frees its place."""
    run_id, path = queued(caller)
    with served(caller) as port:
        open_ones = [Following(port, path) for _ in range(caller.streams.limit)]
        assert [stream.response.status for stream in open_ones] == [200] * caller.streams.limit
        with following(port, path) as refused:
            assert refused.response.status == 503
            answer = json.loads(refused.response.read())
            assert (answer["code"], refused.response.headers["Retry-After"]) == ("TOO_MANY_STREAMS", "2")
        health = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
        assert exchange(port, health).status == 200
        assert f"turngate_streams_open {caller.streams.limit}.0" in caller.get("/metrics").body.decode()
        open_ones.pop().close()
        assert isinstance(caller.streams, Watched)
        assert caller.streams.left.wait(PATIENCE)
        with following(port, path) as stream:
            assert stream.response.status == 200
        caller.post(f"/v1/runs/{run_id}/cancel")
        for stream in open_ones:
            stream.all()
            stream.close()
    assert caller.streams.open == 0


def test_the_end_of_the_server_ends_streams(caller: Caller) -> None:
    """Stopping the server ends all streams."""
    _, path = queued(caller)
    with served(caller) as port:
        stream = Following(port, path)
        assert stream.next()
    assert stream.all() == []
    stream.close()
    assert caller.streams.open == 0


def test_head_opens_no_stream(caller: Caller) -> None:
    """A HEAD request takes no stream's place."""
    _, path = queued(caller)
    response = caller.client.head(path)
    assert (response.status_code, response.mimetype) == (200, "text/event-stream")
    assert caller.streams.open == 0


def test_a_stream_ends_when_the_store_fails(caller: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    """The client reconnects and then gets the problem document."""
    run_id, _ = queued(caller)
    lines = caller.streams.follow(caller.core.store, run_id, 0, ended=False, gone=bool)
    assert next(lines).startswith(b"retry: ")
    assert b"event: state" in next(lines)

    def fail(*_: object) -> None:
        raise sqlite3.OperationalError("disk I/O error")

    monkeypatch.setattr(caller.core.store, "read", fail)
    assert list(lines) == []


def test_a_stream_gives_its_place_back_once(caller: Caller) -> None:
    """A stream may be closed repeatedly, and before anything was read."""
    place = caller.streams.enter()
    assert caller.streams.open == 1
    caller.streams.leave(place)
    caller.streams.leave(place)
    assert caller.streams.open == 0


def test_an_event_is_one_line_of_data() -> None:
    """The data can't end its line or begin another field."""
    event = StoredEvent(7, TextEvent(1, "a\nevent: forged\r\n\n\ud800"), "2026-11-22T01:42:00+00:00")
    lines = as_lines(event).decode()
    assert lines.count("\n") == 4
    assert lines.count("\r") == 0
    assert json.loads(lines.splitlines()[2].removeprefix("data: "))["text"] == "a\nevent: forged\r\n\n\ud800"


def test_news_say_something_even_if_much_happens_that_is_no_news(monkeypatch: pytest.MonkeyPatch) -> None:
    """Texts of agents that come one after the other don't silence a stream that tells only states."""
    monkeypatch.setattr(runs, "progress", lambda _store, _run, after: (after + 1, False))
    store, most = mock.Mock(wait_for_event=lambda *_: True), iter(range(100))
    news = EventStreams(heartbeat=1e-9).news(store, None, 0, gone=lambda: next(most, None) is None)
    assert b": heartbeat\n\n" in news
