"""Checks of what an engine does around its turns, on turns made by hand."""

import pytest
from msgspec.structs import replace

from tests.probes import turns as t
from turngate.contract import load
from turngate.process import EXIT_LIMIT, Ended
from turngate_probes.harness.observations import NotSeenError

LISTED = replace(t.CODEX, hermetic=replace(t.CODEX.hermetic, egress=("updates.example",)))


def test_turns_that_leave_nothing_pass() -> None:
    """Without leftovers the exit was clean."""
    assert t.check("process.clean-exit", t.turn("main/first"), t.turn("auto/first")).ok


def test_a_process_left_running_fails() -> None:
    """A leftover of any turn fails, is named by its argv, and has a symptom."""
    finding = t.check("process.clean-exit", t.turn("main/first", leftovers=(t.leftover("node", "watch.js"),)))
    assert (finding.ok, finding.symptoms, finding.evidence) == (False, ("left-running",), ("main/first",))
    assert finding.detail == "left running: node watch.js"


def test_a_process_that_stays_after_its_turn_fails() -> None:
    """A turn that was ended at the limit for its exit fails, with a separate symptom."""
    turn = t.turn("main/first", ended=Ended.LINGERED, exit_code=-15, exit_seconds=10.1)
    finding = t.check("process.clean-exit", turn)
    assert (finding.ok, finding.symptoms, finding.evidence) == (False, ("lingers",), ("main/first",))
    assert finding.detail == "still running 10 s after its terminal event, then terminated"


def test_the_limit_is_what_the_clause_says() -> None:
    """The catalogue names the limit by which processes are ended."""
    assert load.catalogue()["process.clean-exit"].deadline == EXIT_LIMIT


def test_a_process_without_argv_is_named_by_its_id() -> None:
    """A zombie has no argv to show."""
    finding = t.check("process.clean-exit", t.turn("main/first", leftovers=(t.leftover(),)))
    assert finding.detail == "left running: 4711"


def test_recordings_say_little_of_processes() -> None:
    """Where nobody looked at processes nothing is said, nor where nobody measured how long they stayed."""
    with pytest.raises(NotSeenError, match="how long"):
        t.check("process.clean-exit", t.turn("main/first", exit_seconds=None))
    with pytest.raises(NotSeenError, match="recordings don't show"):
        t.check("process.clean-exit", t.turn("main/first", requests=None))
    with pytest.raises(NotSeenError, match="main/first was not observed"):
        t.check("process.clean-exit")


def test_an_executable_that_changed_fails() -> None:
    """Changed files fail with what changed; the same files pass; where nobody looked nothing is said."""
    assert t.check("executable.unchanged", changed="").ok
    finding = t.check("executable.unchanged", changed="1 files changed, including /opt/codex")
    assert (finding.ok, finding.detail) == (False, "1 files changed, including /opt/codex")
    with pytest.raises(NotSeenError):
        t.check("executable.unchanged")


def test_the_model_backend_alone_passes() -> None:
    """No host and no strange path pass, and so does a host that the contract lists, which is reported."""
    assert t.check("network.loopback-only", t.turn("main/first"), hosts=set()).detail == "only the model backend"
    listed = t.check("network.loopback-only", t.turn("main/first"), hosts={"updates.example"}, contract=LISTED)
    assert (listed.ok, listed.detail) == (True, "only the model backend, and the listed updates.example")


def test_a_host_that_is_not_listed_fails() -> None:
    """Of several hosts those that are not listed are named."""
    hosts = {"updates.example", "telemetry.example"}
    finding = t.check("network.loopback-only", hosts=hosts, contract=LISTED)
    assert (finding.ok, finding.detail) == (False, "tried to reach telemetry.example")


def test_a_path_that_the_backend_does_not_know_fails() -> None:
    """A request for something new is news."""
    strange = t.exchange(method="GET", path="/v1/brand-new", protocol=None)
    finding = t.check("network.loopback-only", t.turn("main/first", requests=(strange,)), hosts=set())
    assert (finding.ok, finding.detail) == (False, "requested unknown paths of the model backend: GET /v1/brand-new")


def test_a_path_that_is_unknown_outside_of_a_turn_fails() -> None:
    """Requests of the version command, or after the end of a turn, are reported like those of turns."""
    known = t.exchange(method="GET", path="/v1/brand-new", protocol=None)
    turn = t.turn("main/first", requests=(known,))
    finding = t.check("network.loopback-only", turn, hosts=set(), unknown={"GET /v1/brand-new", "GET /v2"})
    assert (finding.ok, finding.detail) == (
        False,
        "requested unknown paths of the model backend: GET /v1/brand-new, GET /v2",
    )


def test_a_tunnel_to_a_backend_that_is_away_is_no_news() -> None:
    """An engine that sends everything through the proxy asks it for the model backend, also where that is not there."""
    away = t.exchange(method="CONNECT", path="127.0.0.1:1", protocol=None)
    assert t.check("network.loopback-only", t.turn("main/first", requests=(away,)), hosts=set()).ok


def test_a_network_that_nobody_watched_is_unknown() -> None:
    """Recordings say nothing of the network."""
    with pytest.raises(NotSeenError):
        t.check("network.loopback-only", t.turn("main/first"))
