"""Every packaged contract is held to what all contracts promise, and four of them to their baselines."""

import json
import re
from inspect import getmodule, getsource
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.contracts.releases import IDS, NEWEST, RELEASES, boundaries, every_release, releases_of, session_of
from turngate.argv.build import read_options
from turngate.contract import load
from turngate.contract.clauses import Severity
from turngate.contract.structs import EngineContract
from turngate_probes.clauses import CHECKS
from turngate_probes.harness.cases import FAILING

BASELINES = {
    "handle.present",
    "handle.place",
    "resume.accepted",
    "resume.context-carried",
    "interactive.no-auto-flags",
}
# breaking, since the loop is the server's whole use, and a server that does not even start would pass else
SERVER = {
    "server.waits",
    "server.survives-kill",
    "server.context-carried",
    "server.final-data",
    "server.no-auto-flags",
    "server.dead-handle",
    "server.missing-handle",
    "server.engine-failure",
    "server.bad-envelope",
    "server.cancel",
    "server.one-reply",
}
# the others of their level are degraded: going back is not promised
CROSSED = {"upgrade.resume"}
BREAKING = (
    SERVER
    | CROSSED
    | {
        "version.readable",
        "handle.present",
        "handle.place",
        "handle.shape",
        "stream.framing",
        "turn.terminal-event",
        "resume.accepted",
        "resume.same-handle",
        "resume.context-carried",
        "resume.repeated",
        "resume.later-minute",
        "resume.dead-handle",
        "resume.isolation",
        "interactive.no-auto-flags",
        "prompt.not-a-flag",
        "backend.failure-told",
        "text.imitation",
    }
)
STICKY = {
    "sticky.one-process",
    "sticky.framing",
    "sticky.ends-when-told",
    "sticky.context-carried",
    "sticky.permission-asked",
    "sticky.wait-timeout",
    "sticky.process-lost",
    "sticky.restart",
}
INFORMATIVE = {"stream.known-events", "network.loopback-only"}
DEGRADED = {
    "help.surface",
    "resume.other-cwd",
    "resume.malformed-handle",
    "auto.flags-accepted",
    "prompt.large",
    "stdin.open",
    "process.clean-exit",
    "executable.unchanged",
}
STATIC = {"version.readable", "help.surface"}
LOUD = {"hang", "fresh-session", "quiet", "exit-0", "late"}
CROSSING = {"hang", "refused", "fresh-session", "new-handle"}
SYMPTOMS = {
    "resume.same-handle": {"new-handle"},
    "resume.repeated": {"new-handle"},
    "resume.other-cwd": {"hang", "refused", "fresh-session"},
    "resume.later-minute": {"lost-at-once", "lost-after-another"},
    "resume.dead-handle": LOUD,
    "resume.malformed-handle": LOUD,
    "stdin.open": {"hang"},
    "process.clean-exit": {"left-running", "lingers"},
    "sticky.ends-when-told": {"killed"},
    "upgrade.resume": CROSSING,
    "rollback.resume": CROSSING,
    "rollback.touched": CROSSING,
    "backend.failure-told": {
        f"{how}-{case.removeprefix('backend-')}" for how in ("hang", "success", "exit-0") for case in FAILING
    },
}
CLAUSES = load.catalogue().clauses
every_engine = pytest.mark.parametrize("engine", load.engines())


def test_the_four_engines_are_there() -> None:
    """The four engines that everything began with have contracts."""
    assert {"codex", "gemini", "iflow", "opencode"} <= set(load.engines())


@every_engine
def test_deviation_declares_what_an_orchestrator_must_do(engine: str) -> None:
    """No deviation without evidence stands in for an excuse."""
    for deviation in load.contract(engine).document.data.get("deviations", ()):
        assert deviation["compensation"], deviation
        assert "evidence" in deviation, deviation


@every_release
def test_what_we_pass_ourselves_is_declared(contract: EngineContract) -> None:
    """The options of mode auto, of the model and of the probe exist at each release that they are passed to."""
    read_options(contract, [token.replace("{model}", "m") for token in contract.launch.model])
    read_options(contract, contract.launch.auto)
    read_options(contract, contract.hermetic.options)


@every_release
def test_resume_is_by_handle_alone(contract: EngineContract) -> None:
    """No template picks a session by itself: no latest one, no index, no picker."""
    picking = {"--last", "--all", "--continue", "-c", "latest", "--list-sessions", "--fork", "--session-id"}
    assert not picking & {*contract.launch.start, *contract.launch.resume}


@every_release
def test_handle_is_a_session_id_of_the_real_shape(contract: EngineContract) -> None:
    """Engines name their sessions by an id; real ones have its shape, and the dead one is none of them."""
    assert contract.handle.handle_type == "session_id"
    assert re.fullmatch(contract.handle.shape, session_of(contract))
    assert contract.handle.nonexistent_id != IDS.get(contract.engine)


@every_engine
def test_handle_takes_no_range(engine: str) -> None:
    """Where the id stands holds for every release: one claim, without since and until."""
    (claim,) = load.contract(engine).document.claims("handle")
    assert not {"since", "until"} & claim.data.keys()


@releases_of("codex")
def test_codex_baseline(contract: EngineContract) -> None:
    """The id is the thread_id of the first event, `thread.started`, and a positional argument before the prompt."""
    handle = contract.handle
    assert (handle.stream, handle.record, handle.field) == ("stdout", "first", "thread_id")
    assert handle.match == {"type": "thread.started"}
    assert contract.streams.stdout.framing == "ndjson"
    resume = contract.launch.resume
    assert resume[0] == "exec"
    assert resume[-3:] == ("resume", "{handle}", "{prompt}")
    # after `resume` most options are refused; before it all are taken
    assert resume.index("{options}") < resume.index("resume")


@releases_of("gemini")
def test_gemini_baseline(contract: EngineContract) -> None:
    """The id is session_id of the one JSON document, passed as `--resume <id>`."""
    handle = contract.handle
    assert (handle.stream, handle.record, handle.field, handle.match) == ("stdout", "only", "session_id", None)
    assert contract.streams.stdout.framing == "json_document"
    assert contract.launch.resume[contract.launch.resume.index("{handle}") - 1] == "--resume"
    assert not re.fullmatch(handle.shape, "1")
    assert not re.fullmatch(handle.shape, "latest")


@releases_of("iflow")
def test_iflow_baseline(contract: EngineContract) -> None:
    """The id is session-id in `<Execution Info>` on stderr, passed as `--resume <id>`, and no picker can open."""
    handle = contract.handle
    assert (handle.stream, handle.record, handle.field) == ("stderr", "only", "session-id")
    assert (contract.streams.stderr.framing, contract.streams.stderr.tag) == ("tagged_block", "Execution Info")
    assert contract.launch.resume[contract.launch.resume.index("{handle}") - 1] == "--resume"
    assert all(any(re.search(r.pattern, "") for r in channel.refuses) for channel in contract.launch.prompt)


@releases_of("opencode")
def test_opencode_baseline(contract: EngineContract) -> None:
    """The id is sessionID of the events on stdout, passed by a named option."""
    assert (contract.handle.stream, contract.handle.field) == ("stdout", "sessionID")
    assert contract.launch.resume[contract.launch.resume.index("{handle}") - 1] == "--session"


@given(st.data(), st.sampled_from(list(NEWEST.values())))
def test_no_id_in_shape_is_harmful(data: st.DataObject, contract: EngineContract) -> None:
    """Whatever has the shape of an id is one plain word: no flag, no path, no pattern, no control character."""
    value = data.draw(st.from_regex(contract.handle.shape, fullmatch=True))
    assert re.fullmatch(r"[0-9A-Za-z][0-9A-Za-z_-]{7,127}", value)


def test_ranges_are_what_the_tests_run_over() -> None:
    """Contracts do have ranges, and each boundary is tried."""
    assert boundaries("codex")
    assert {c.version for c in RELEASES if c.engine == "codex"} >= {*boundaries("codex"), None}


@pytest.mark.parametrize(
    "severity, ids", [(Severity.BREAKING, BREAKING), (Severity.DEGRADED, DEGRADED), (Severity.INFORMATIVE, INFORMATIVE)]
)
def test_fixed_clauses_have_their_severity(severity: Severity, ids: set[str]) -> None:
    """The clauses that others rely on are in the catalogue, at the severity that the design gives them."""
    assert {clause.id for clause in CLAUSES if clause.severity is severity} >= ids
    assert not {clause.id for clause in CLAUSES if clause.severity is not severity} & ids


def test_new_clauses_are_degraded_unless_listed() -> None:
    """No clause becomes breaking or informative by the way."""
    assert {clause.id for clause in CLAUSES if clause.severity is not Severity.DEGRADED} == BREAKING | INFORMATIVE


def test_baselines_are_the_five() -> None:
    """Exactly these clauses take neither range nor deviation."""
    assert {clause.id for clause in CLAUSES if clause.baseline} == BASELINES


def test_levels_of_the_fixed_clauses() -> None:
    """Only version and help are asked without running a turn."""
    assert {clause.id for clause in CLAUSES if clause.level == "static"} == STATIC
    assert {clause.id for clause in CLAUSES if clause.level == "hermetic"} >= (
        (BREAKING | DEGRADED | INFORMATIVE) - STATIC - SERVER - CROSSED
    )
    assert {clause.id for clause in CLAUSES if clause.level == "server"} == SERVER | STICKY


def test_clauses_say_what_and_why() -> None:
    """Each clause is one sentence, and says what breaks in an orchestrator."""
    for clause in CLAUSES:
        for text in (clause.sentence, clause.why):
            assert re.fullmatch(r"[A-Z][^\n]+\.", text), clause.id
        assert re.fullmatch(r"[a-z]+\.[a-z0-9-]+", clause.id)


def test_clauses_need_what_stands_before_them() -> None:
    """Needs are clauses further up, so that none waits for itself, and none needs what a lesser level lacks."""
    before = set[str]()
    for clause in CLAUSES:
        assert set(clause.needs) <= before, clause.id
        assert clause.id not in before
        before.add(clause.id)


def test_clauses_have_a_check() -> None:
    """Each clause that a probe asks has a function that answers it."""
    for clause in load.catalogue().at_level("static", "hermetic"):
        assert CHECKS[clause.id].run.__doc__, clause.id


def test_declared_symptoms_are_those_that_checks_report() -> None:
    """A deviation names a symptom that the clause's check can say, else it would excuse nothing."""
    for engine, clause, symptom in sorted({(c.engine, d.clause, d.symptom) for c in RELEASES for d in c.deviations}):
        assert symptom in SYMPTOMS[clause], engine
        source = getsource(getmodule(CHECKS[clause].run) or pytest.fail("no module"))
        assert f'"{symptom}"' in source or f'"{symptom.rpartition("-")[0]}-{{' in source, (engine, clause)


def test_known_symptoms_are_all_there_are() -> None:
    """Each symptom that some check names in its source is listed here, and each of these is named there."""
    sources = {getsource(getmodule(check.run) or pytest.fail("no module")) for check in CHECKS.values()}
    listed = set.union(*SYMPTOMS.values()) - SYMPTOMS["backend.failure-told"]
    assert set.union(*map(_named, sources)) == listed


def _named(source: str) -> set[str]:
    spelled = re.findall(r"symptom=(.+)\)$", source, re.MULTILINE)
    return {word for text in spelled for word in re.findall(r'"([a-z0-9-]+)"', text)}


FIXTURES = Path(__file__).parents[3] / "fixtures"
OFFERING = sorted(
    (folder.parent.name, folder.name)
    for folder in FIXTURES.glob("*/*")
    if all((folder / turn / "requests.ndjson").is_file() for turn in ("main-first", "auto-first"))
)


def offered(engine: str, version: str, turn: str) -> set[str]:
    """Return the tools of the request that offers most."""
    lines = (FIXTURES / engine / version / turn / "requests.ndjson").read_text("utf-8").splitlines()
    return max((set(json.loads(line)["tools"]) for line in lines), key=len, default=set())


def test_what_is_lost_is_lost_in_the_recordings(subtests: pytest.Subtests) -> None:
    """A tool that the model is offered in both modes is lost in another way, such as by a sandbox."""
    for engine, version in OFFERING:
        with subtests.test(release=f"{engine}@{version}"):
            interactive, auto = (offered(engine, version, turn) for turn in ("main-first", "auto-first"))
            assert interactive
            for lost in load.contract(engine).at(version).tools_lost:
                assert ({*lost.tools} <= auto - interactive) == (lost.why == "it is not offered to the model"), lost
                assert {*lost.tools} <= auto


@pytest.mark.parametrize("engine", sorted({engine for engine, _ in OFFERING}))
def test_nothing_else_is_lost(engine: str) -> None:
    """The contract names every tool that the newest recorded release offers in mode auto alone."""
    version = max((v for e, v in OFFERING if e == engine), key=lambda v: [int(part) for part in v.split(".")])
    named = {tool for lost in load.contract(engine).at(version).tools_lost for tool in lost.tools}
    assert offered(engine, version, "auto-first") - offered(engine, version, "main-first") <= named


@pytest.mark.parametrize("folder", sorted(FIXTURES.glob("codex/*/tool-call-first")), ids=lambda f: f.parent.name)
def test_interactive_codex_is_read_only(folder: Path) -> None:
    """The command that the model asked for could not write its file."""
    said = (folder / "stdout").read_text("utf-8")
    assert "Read-only file system" in said or "Permission denied" in said
