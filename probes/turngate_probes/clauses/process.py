"""Checks of an engine's side effects: processes, files, network."""

from turngate import Ended
from turngate.contract.clauses import Reason
from turngate.contract.verdict import Finding
from turngate.process.execution import EXIT_LIMIT
from turngate_probes.clauses.checks import check, fail_if, how_it_ended, passed
from turngate_probes.harness.observations import NotObservedError, Observations, Turn, unknown_requests

# the probe adds this name when every case has ended and the executable was compared
EVERYTHING = "everything"
_FETCHES = "no model traffic: install what it fetches before a turn, or turn the download off"


@check("process.clean-exit", EVERYTHING)
def clean_exit(observed: Observations) -> Finding:
    """The engine exited soon after the terminal event of each turn, and left nothing running, unless it was killed."""
    watched = [turn for turn in observed.turns.values() if turn.requests is not None and turn.signal is None]
    if not watched and observed.turns:
        raise NotObservedError("recordings don't show which processes were left running", Reason.NO_RECORDING)
    if not watched:
        observed.turn("main/first")
    for turn in watched:
        late = f"still running {turn.exit_seconds or EXIT_LIMIT:.0f} s after its terminal event, then terminated"
        fail_if(turn.ended is Ended.LINGERED, late, turn, symptom="lingers")
        fail_if(turn.leftovers, f"left running: {left_running(turn)}", turn, symptom="left-running")
    if any(turn.exit_seconds is None for turn in watched):
        what = "recordings don't show how long the engine ran after its terminal event"
        raise NotObservedError(what, Reason.NO_RECORDING)
    if not any(turn.reading.ended or turn.reading.failures for turn in watched):
        raise NotObservedError(f"no turn had a terminal event ({how_it_ended(watched[0])})", by_engine=True)
    slowest = max(turn.exit_seconds or 0 for turn in watched)
    return passed(f"{len(watched)} turns left no process running; at most {slowest:.1f} s from terminal event to exit")


@check("executable.unchanged", EVERYTHING)
def executable_unchanged(observed: Observations) -> Finding:
    """The executable and its installation did not change."""
    if observed.changed is None:
        raise observed.missing("the executable")
    fail_if(observed.changed, observed.changed)
    return passed("same files before and after")


@check("network.loopback-only", EVERYTHING)
def loopback_only(observed: Observations) -> Finding:
    """Only hosts that the contract lists were contacted, and no unknown path of the model backend."""
    if observed.hosts is None:
        raise observed.missing("the network")
    strange = observed.hosts - {*observed.contract.hermetic.egress}
    registries, others = sorted(strange & observed.registries), sorted(strange - observed.registries)
    # a user's settings may switch telemetry on
    own = [turn for turn in observed.turns.values() if turn.in_force is None]
    asked = unknown_requests(request for turn in own for request in turn.requests or ())
    # some requests come outside of a turn: for the version, or after the engine's process has ended
    paths = sorted(asked | observed.unknown)
    wrong = [f"tried to reach {', '.join(others)}"] if others else []
    wrong += [f"requested unknown paths of the model backend: {', '.join(paths[:5])}"] if paths else []
    fetches = [f"tried to reach the package registry {', '.join(registries)}; {_FETCHES}"] if registries else []
    fail_if(wrong, "; ".join(wrong + fetches))
    fail_if(fetches, "".join(fetches), symptom="package-registry")
    if not any(turn.requests for turn in observed.turns.values()):
        raise NotObservedError("no turn reached the model backend, so that nothing is shown", by_engine=True)
    listed = ", ".join(sorted(observed.hosts))
    return passed("only the model backend" + (f", and the listed {listed}" if listed else ""))


def left_running(turn: Turn) -> str:
    """List the processes that a turn left running."""
    return ", ".join(" ".join(process.argv)[:120] or str(process.pid) for process in turn.leftovers)
