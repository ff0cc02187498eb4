import json
from pathlib import Path
from typing import Any

from tests.tables import each
from turngate.contract import load
from turngate.contract.lint.claims import about, claim_errors, recordings_named
from turngate.contract.load import Document
from turngate.contract.versions import dotted

CODEX = (Path(load.__file__).parents[1] / "engines/codex.yaml").read_text()
OBSERVED = [{"observed": "it was so"}]


def document(**sections: Any) -> Document:
    """Return the contract of codex with these sections replaced."""
    data = load.parse(CODEX, "codex.yaml", ours=True).data | sections
    return load.parse(json.dumps(data), "mine.yaml", ours=True)


def wrong(**sections: Any) -> list[str]:
    """Return every error, as `path: message`."""
    return [f"{error.path}: {error.what}" for error in claim_errors(document(**sections))]


@each("engine", load.engine_names())
def test_the_packaged_contracts_are_clean(engine: str) -> None:
    """In packaged contracts all evidence is useful, and no entries overlap."""
    assert list(claim_errors(load.contract(engine).document)) == []


@each(
    "evidence, message",
    [
        ({}, "has no evidence"),
        ({"releases": ["1.0.0"]}, "has no evidence"),
        ({"observed": "a", "clause": "handle.present"}, "has clause and observed"),
        ({"clause": "handle.present", "releases": ["1.0.0"]}, "`clause` evidence takes no `releases`"),
        ({"clause": "handle.presence"}, "unknown clause 'handle.presence'"),
        ({"recording": "gemini/0.61.0/main-first"}, "'gemini/0.61.0/main-first' isn't a recording of codex"),
        ({"recording": "codex/main-first"}, "'codex/main-first' isn't a recording of codex"),
    ],
)
def test_evidence_that_shows_nothing_is_found(evidence: dict[str, Any], message: str) -> None:
    """Useless evidence is reported at its own place, also next to good evidence."""
    volatile = [{"pattern": "a", "placeholder": "b", "evidence": [*OBSERVED, evidence]}]
    assert wrong(volatile=volatile) == [f"$.volatile[0].evidence[1]: {message}"]


FLAG = {"flag": "--a", "value": "none", "evidence": OBSERVED}
DEVIATION = {"clause": "stdin.open", "evidence": OBSERVED}
MATCH = {"stream": "stdout", "match": {"type": "x"}, "evidence": OBSERVED}


@each(
    "section, first, second",
    [
        ("options", FLAG, FLAG),
        ("options", FLAG | {"until": "2.0.0"}, FLAG | {"since": "1.9.9"}),
        ("options", FLAG | {"aliases": ["-z"]}, FLAG | {"flag": "--b", "aliases": ["-z"]}),
        ("auto_flags", FLAG | {"keys": [{"key": "k"}, {"key": "l"}]}, FLAG | {"keys": [{"key": "l"}]}),
        ("failures", MATCH, MATCH | {"message": "m"}),
        ("deviations", DEVIATION | {"symptom": "s"}, DEVIATION | {"symptom": "s"}),
        ("volatile", {"pattern": "a", "evidence": OBSERVED}, {"pattern": "a", "evidence": OBSERVED}),
        ("approval_signs", {"tools": ["t", "u"], "evidence": OBSERVED}, {"tools": ["u"], "evidence": OBSERVED}),
    ],
)
def test_two_entries_that_speak_of_the_same_are_found(section: str, first: Any, second: Any) -> None:
    """Of two overlapping entries the second is reported, and the error names the first."""
    (message,) = wrong(**{section: [first, second]})
    assert message.startswith(f"$.{section}[1]: makes a claim about ")
    assert "as entry 0 does" in message


@each(
    "section, first, second",
    [
        ("options", FLAG | {"until": "2.0.0"}, FLAG | {"since": "2.0.0"}),
        ("options", FLAG, FLAG | {"flag": "--b"}),
        ("auto_flags", FLAG | {"keys": [{"key": "k"}]}, FLAG | {"keys": [{"key": "l"}]}),
        ("auto_flags", FLAG | {"keys": [{"key": "k"}]}, FLAG),
        ("failures", MATCH, MATCH | {"stream": "stderr"}),
        ("failures", MATCH, MATCH | {"match": {"type": "y"}}),
        ("deviations", DEVIATION | {"symptom": "s"}, DEVIATION | {"symptom": "t"}),
    ],
)
def test_entries_that_speak_of_different_things_are_not(section: str, first: Any, second: Any) -> None:
    """Entries with separate ranges, names or matches don't overlap."""
    assert wrong(**{section: [first, second]}) == []


def test_the_claims_that_a_clause_shows_are_found() -> None:
    """A clause's claims are found by evidence, by its deviations, or else by its section, within their range."""
    mine = document(
        deviations=[{"clause": "stdin.open", "symptom": "s", "since": "2.0.0"}],
        volatile=[{"pattern": "a", "evidence": [{"clause": "prompt.large"}]}],
    )
    assert [dotted(path) for path in about(mine, "prompt.large", "1.0.0")] == ["$.volatile[0]"]
    assert [dotted(path) for path in about(mine, "stdin.open", "2.0.0")] == ["$.deviations[0]"]
    assert about(mine, "stdin.open", "1.0.0") == []
    assert [dotted(path) for path in about(mine, "stdin.open", "of my own")] == ["$.deviations[0]"]
    assert [dotted(path) for path in about(mine, "handle.present", "1.0.0")] == ["$.handle"]


def test_recordings_that_are_evidence_are_listed() -> None:
    """Recordings that are evidence are listed with their place in the contract."""
    volatile = [{"pattern": "a", "evidence": [*OBSERVED, {"recording": "codex/1.0.0/main-first"}]}]
    recordings = {dotted(path): name for path, name in recordings_named(document(volatile=volatile))}
    assert recordings["$.volatile[0].evidence[1]"] == "codex/1.0.0/main-first"
