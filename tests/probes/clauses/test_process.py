"""Checks of processes, files and the network, on hand-made turns."""

import pytest
from msgspec.structs import replace

from tests.probes import turns as t
from turngate.contract import load
from turngate.model import Ended
from turngate.process.execution import EXIT_LIMIT
from turngate_probes.harness.observations import NotObservedError

LISTED = replace(t.CODEX, hermetic=replace(t.CODEX.hermetic, egress=("updates.example",)))


def test_turns_that_leave_nothing_pass() -> None:
    """Turns that leave no process running pass."""
    assert t.check("process.clean-exit", t.turn("main/first"), t.turn("auto/first")).ok


def test_a_process_left_running_fails() -> None:
    """A process left running by any turn fails, with its argv and a symptom."""
    finding = t.check("process.clean-exit", t.turn("main/first", leftovers=(t.leftover("node", "watch.js"),)))
    assert (finding.ok, finding.symptoms, finding.evidence) == (False, ("left-running",), ("main/first",))
    assert finding.detail == "left running: node watch.js"


def test_what_a_killed_engine_leaves_is_not_its_fault() -> None:
    """An engine that was killed can't end its processes."""
    killed = t.turn("disturbed/killed-in-call", signal="SIGKILL", exit_code=-9, leftovers=(t.leftover("cat", "held"),))
    assert t.check("process.clean-exit", t.turn("main/first"), killed).ok


def test_a_turn_without_a_terminal_event_shows_no_exit() -> None:
    """Without a terminal event in any turn, the time to the exit is unknown."""
    with pytest.raises(NotObservedError, match="no turn had a terminal event"):
        t.check("process.clean-exit", t.refused("main/first", exit_seconds=0.0))


def test_turns_that_reached_nothing_show_nothing_of_the_network() -> None:
    """An engine that never reached the model backend has not shown what it contacts; a strange host still fails."""
    with pytest.raises(NotObservedError, match="no turn reached the model backend"):
        t.check("network.loopback-only", t.refused("main/first"), hosts=set())
    assert not t.check("network.loopback-only", t.refused("main/first"), hosts={"telemetry.example"}).ok


def test_a_process_that_stays_after_its_turn_fails() -> None:
    """A process that does not exit in time after its turn fails, with its own symptom."""
    turn = t.turn("main/first", ended=Ended.LINGERED, exit_code=-15, exit_seconds=10.1)
    finding = t.check("process.clean-exit", turn)
    assert (finding.ok, finding.symptoms, finding.evidence) == (False, ("lingers",), ("main/first",))
    assert finding.detail == "still running 10 s after its terminal event, then terminated"


def test_the_limit_is_what_the_clause_says() -> None:
    """The catalogue states the exit limit that turngate uses."""
    assert load.catalogue()["process.clean-exit"].deadline == EXIT_LIMIT


def test_a_process_without_argv_is_named_by_its_id() -> None:
    """A process without an argv, such as a zombie, is named by its process id."""
    finding = t.check("process.clean-exit", t.turn("main/first", leftovers=(t.leftover(),)))
    assert finding.detail == "left running: 4711"


def test_recordings_say_little_of_processes() -> None:
    """The clause is not run if leftover processes or exit times were not observed."""
    with pytest.raises(NotObservedError, match="how long"):
        t.check("process.clean-exit", t.turn("main/first", exit_seconds=None))
    with pytest.raises(NotObservedError, match="recordings don't show"):
        t.check("process.clean-exit", t.turn("main/first", requests=None))
    with pytest.raises(NotObservedError, match="main/first was not observed"):
        t.check("process.clean-exit")


def test_an_executable_that_changed_fails() -> None:
    """Changed files fail, with the change as detail; without a comparison the clause is not run."""
    assert t.check("executable.unchanged", changed="").ok
    finding = t.check("executable.unchanged", changed="1 files changed, including /opt/codex")
    assert (finding.ok, finding.detail) == (False, "1 files changed, including /opt/codex")
    with pytest.raises(NotObservedError):
        t.check("executable.unchanged")


def test_the_model_backend_alone_passes() -> None:
    """Turns that reach only the model backend, or hosts listed in the contract, pass."""
    assert t.check("network.loopback-only", t.turn("main/first"), hosts=set()).detail == "only the model backend"
    listed = t.check("network.loopback-only", t.turn("main/first"), hosts={"updates.example"}, contract=LISTED)
    assert (listed.ok, listed.detail) == (True, "only the model backend, and the listed updates.example")


def test_a_host_that_is_not_listed_fails() -> None:
    """Hosts that the contract doesn't list fail, and only they are named."""
    hosts = {"updates.example", "telemetry.example"}
    finding = t.check("network.loopback-only", hosts=hosts, contract=LISTED)
    assert (finding.ok, finding.detail) == (False, "tried to reach telemetry.example")


def test_a_package_registry_is_told_apart() -> None:
    """A registry alone is a symptom of its own, with what to do; beside another host it has no symptom."""
    hosts, registries = {"updates.example", "npm.acme.example"}, {"npm.acme.example"}
    finding = t.check("network.loopback-only", hosts=hosts, registries=registries, contract=LISTED)
    assert (finding.ok, finding.symptoms) == (False, ("package-registry",))
    assert finding.detail.startswith("tried to reach the package registry npm.acme.example; no model traffic: install")
    both = t.check("network.loopback-only", hosts=hosts, registries=registries)
    assert (both.ok, both.symptoms) == (False, ())
    assert both.detail.startswith("tried to reach updates.example; tried to reach the package registry npm.")


def test_a_path_that_the_backend_does_not_know_fails() -> None:
    """A request to an unknown path of the model backend fails."""
    strange = t.exchange(method="GET", path="/v1/brand-new", protocol=None)
    finding = t.check("network.loopback-only", t.turn("main/first", requests=(strange,)), hosts=set())
    assert (finding.ok, finding.detail) == (False, "requested unknown paths of the model backend: GET /v1/brand-new")


def test_a_path_that_is_unknown_outside_of_a_turn_fails() -> None:
    """Unknown requests outside of turns, such as from the version command, are reported too."""
    known = t.exchange(method="GET", path="/v1/brand-new", protocol=None)
    turn = t.turn("main/first", requests=(known,))
    finding = t.check("network.loopback-only", turn, hosts=set(), unknown={"GET /v1/brand-new", "GET /v2"})
    assert (finding.ok, finding.detail) == (
        False,
        "requested unknown paths of the model backend: GET /v1/brand-new, GET /v2",
    )


def test_a_tunnel_to_a_backend_that_is_away_is_no_news() -> None:
    """A proxy tunnel to the model backend passes, even if the backend is unreachable."""
    away = t.exchange(method="CONNECT", path="127.0.0.1:1", protocol=None)
    assert t.check("network.loopback-only", t.turn("main/first", requests=(away,)), hosts=set()).ok


def test_a_network_that_nobody_watched_is_unknown() -> None:
    """Without network observations, as in recordings, the clause is not run."""
    with pytest.raises(NotObservedError):
        t.check("network.loopback-only", t.turn("main/first"))


def test_what_a_user_s_telemetry_requests_does_not_count() -> None:
    """In turns with settings that switch it on, an unknown path is the user's wish."""
    plain = t.turn("main/first")
    unknown = t.exchange(protocol=None, path="/v1/turn-costs")
    asked = t.turn("any-settings/all", requests=(unknown,), in_force=("otel",))
    assert t.check("network.loopback-only", plain, asked, hosts=set()).ok
    assert not t.check("network.loopback-only", plain, replace(asked, in_force=None), hosts=set()).ok
