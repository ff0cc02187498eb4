"""Every packaged contract has the properties required of all, and four have their baselines."""

import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.contracts.releases import IDS, NEWEST, RELEASES, boundaries, every_release, releases_of, session_of
from tests.tables import each
from turngate.argv.interactive import read_options
from turngate.contract import load
from turngate.contract.engine_contract import EngineContract
from turngate.files import contract_files, simulation_files

_BASIS = ("evidence", "unverified")

every_engine = each("engine", load.engine_names())


def test_the_four_engines_are_there() -> None:
    """The four original engines have contracts."""
    assert {"codex", "gemini", "iflow", "opencode"} <= set(load.engine_names())


@every_engine
def test_deviation_declares_what_an_orchestrator_must_do(engine: str) -> None:
    """Every deviation has evidence and says what an orchestrator must do."""
    for deviation in load.contract(engine).document.data.get("deviations", ()):
        assert deviation["action"], deviation
        assert "evidence" in deviation, deviation


@every_engine
def test_every_claim_has_evidence_or_says_that_it_has_none(engine: str) -> None:
    """No claim of a packaged contract or simulation is unverified only because its evidence was forgotten."""
    for file in (contract_files()[engine], simulation_files()[engine]):
        silent = [claim.path for claim in load.read(file, ours=True).claims() if not {*_BASIS} & claim.data.keys()]
        assert silent == [], file


@every_release
def test_what_we_pass_ourselves_is_declared(contract: EngineContract) -> None:
    """The options of mode auto, the model and the probe are declared at every release that they are passed to."""
    read_options(contract, [token.replace("{model}", "m") for token in contract.launch.model])
    read_options(contract, contract.launch.auto)
    read_options(contract, contract.hermetic.options)


@every_release
def test_resume_is_by_handle_alone(contract: EngineContract) -> None:
    """No resume template selects a session in another way, such as the latest one, an index or a picker."""
    picking = {"--last", "--all", "--continue", "-c", "latest", "--list-sessions", "--fork", "--session-id"}
    assert not picking & {*contract.launch.start, *contract.launch.resume}


@every_release
def test_handle_is_a_session_id_of_the_real_shape(contract: EngineContract) -> None:
    """The shape matches real session ids, and the nonexistent id isn't a real one."""
    assert contract.handle.handle_type == "session_id"
    assert re.fullmatch(contract.handle.shape, session_of(contract))
    assert contract.handle.nonexistent_id != IDS.get(contract.engine)


@every_engine
def test_handle_takes_no_range(engine: str) -> None:
    """The location of the session id is one claim, without since and until."""
    (claim,) = load.contract(engine).document.claims("handle")
    assert not {"since", "until"} & claim.data.keys()


@releases_of("codex")
def test_codex_baseline(contract: EngineContract) -> None:
    """The id is the thread_id of the first event, `thread.started`, and is passed as an argument before the prompt."""
    handle = contract.handle
    assert (handle.stream, handle.record, handle.field) == ("stdout", "first", "thread_id")
    assert handle.match == {"type": "thread.started"}
    assert contract.streams.stdout.framing == "ndjson"
    resume = contract.launch.resume
    assert resume[0] == "exec"
    assert resume[-3:] == ("resume", "{handle}", "{prompt}")
    # after `resume` most options are rejected; before it all are accepted
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
    """The id is session-id in `<Execution Info>` on stderr, passed as `--resume <id>`, so that no picker opens."""
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
    """Every id in shape is a plain word: no flag, path, pattern or control character."""
    value = data.draw(st.from_regex(contract.handle.shape, fullmatch=True))
    assert re.fullmatch(r"[0-9A-Za-z][0-9A-Za-z_-]{7,127}", value)


def test_ranges_are_what_the_tests_run_over() -> None:
    """Some contracts have ranges, and each boundary is tested."""
    assert boundaries("codex")
    assert {c.version for c in RELEASES if c.engine == "codex"} >= {*boundaries("codex"), None}


FIXTURES = Path(__file__).parents[2] / "fixtures"


OFFERING = sorted(
    (folder.parent.name, folder.name)
    for folder in FIXTURES.glob("*/*")
    if all((folder / turn / "requests.ndjson").is_file() for turn in ("main-first", "auto-first"))
)


def offered(engine: str, version: str, turn: str) -> set[str]:
    """Return the tools of the request that offers the most."""
    lines = (FIXTURES / engine / version / turn / "requests.ndjson").read_text("utf-8").splitlines()
    return max((set(json.loads(line)["tools"]) for line in lines), key=len, default=set())


def test_what_is_lost_is_lost_in_the_recordings(subtests: pytest.Subtests) -> None:
    """A tool that is offered in both modes must be unusable for another reason, such as a sandbox."""
    for engine, version in OFFERING:
        with subtests.test(release=f"{engine}@{version}"):
            interactive, auto = (offered(engine, version, turn) for turn in ("main-first", "auto-first"))
            assert interactive
            for lost in load.contract(engine).at(version).unavailable_tools:
                assert ({*lost.tools} <= auto - interactive) == (lost.why == "it is not offered to the model"), lost
                assert {*lost.tools} <= auto


@each("engine", sorted({engine for engine, _ in OFFERING}))
def test_nothing_else_is_lost(engine: str) -> None:
    """The contract names every tool that the newest recorded release offers only in mode auto."""
    version = max((v for e, v in OFFERING if e == engine), key=lambda v: [int(part) for part in v.split(".")])
    named = {tool for lost in load.contract(engine).at(version).unavailable_tools for tool in lost.tools}
    assert offered(engine, version, "auto-first") - offered(engine, version, "main-first") <= named


@each("folder", sorted(FIXTURES.glob("codex/*/tool-call-first")), shown=lambda f: f.parent.name)
def test_interactive_codex_is_read_only(folder: Path) -> None:
    """In the recording, the command that the model called could not write its file."""
    said = "".join((folder / stream).read_text("utf-8") for stream in ("stdout", "stderr"))
    assert "Read-only file system" in said or "Permission denied" in said
