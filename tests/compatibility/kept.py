"""The saved matrix results: the verdict of each release, and the clauses that did not pass."""

import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from turngate.contract import load
from turngate.contract.clauses import Severity
from turngate.contract.versions import parse

ROOT = Path(__file__).parents[2]
KEPT = ROOT / "docs" / "compatibility.json"
SCHEMA = "turngate.compatibility/1"

# verdicts whose reason replaces the details of all failures
UNUSABLE = ("broken", "unanswered")

Kept = dict[str, Any]
# texts that differ between two runs of the same release
CHANGING = (
    (re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|ses_[0-9A-Za-z]{26}"), "<id>"),
    (re.compile(r"tgn-[0-9a-f]+"), "<nonce>"),
    (re.compile(r"\b127\.0\.0\.1:\d+"), "127.0.0.1"),
    (re.compile(r"still running after \d+ s"), "still running"),
)


def read(path: Path = KEPT) -> Kept:
    """Return the saved results, or an empty record if there are none yet."""
    if not path.exists():
        return {"schema": SCHEMA, "engines": {}}
    kept: Kept = json.loads(path.read_text("utf-8"))
    return kept


def write(kept: Kept, path: Path = KEPT) -> None:
    """Write the results, one release per line, so that a diff shows which releases changed."""
    lines = ["{", f' "schema": {json.dumps(SCHEMA)},', ' "engines": {']
    for name, engine in kept["engines"].items():
        lines += [f"  {json.dumps(name)}: {{"]
        lines += [f"   {json.dumps(key)}: {json.dumps(engine[key])}," for key in ("machine", "published")]
        lines += ['   "releases": {']
        lines += [
            f"    {json.dumps(version)}: {json.dumps(release)}," for version, release in engine["releases"].items()
        ]
        lines[-1] = lines[-1].rstrip(",")
        lines += ["   }", "  },"]
    lines[-1] = lines[-1].rstrip(",")
    path.write_text("\n".join([*lines, " }", "}", ""]), "utf-8")


def added(kept: Kept, report: Mapping[str, Any], published: Mapping[str, Iterable[str]]) -> Kept:
    """Add the releases of a probe report; `published` names all releases of each engine."""
    engines = dict(kept["engines"])
    for release in report["releases"]:
        name, version = release["engine"], release["version"]
        engine = engines.get(name, {"releases": {}})
        releases = dict(engine["releases"])
        added_release = _release(release, report["clauses"])
        releases[version] = _joined(releases.get(version), added_release)
        engines[name] = {
            "machine": _machine(report["machine"]),
            "published": sorted(published[name], key=parse),
            "releases": {known: releases[known] for known in sorted(releases, key=parse)},
        }
    return {"schema": SCHEMA, "engines": dict(sorted(engines.items()))}


def _joined(before: Kept | None, new: Kept) -> Kept:
    """Add results to earlier ones: selected clauses never replace complete results, but are merged with each other."""
    if before is None or "asked" not in new:
        return new
    if "asked" not in before:
        return before
    others = {name: result for name, result in before["found"].items() if name not in new["asked"]}
    return new | {"asked": sorted({*before["asked"], *new["asked"]}), "found": others | new["found"]}


def _release(release: Mapping[str, Any], asked: list[str]) -> Kept:
    lost = {"lost": True} if release["failed"] else {}
    unusable = not asked and release["verdict"] in UNUSABLE
    why = {"why": _lasting(_reason(release))} if unusable else {}
    results = {
        clause["id"]: _clause(release, clause, reported=not why)
        for clause in release["clauses"]
        if _worth_keeping(clause)
    }
    if asked:
        return {"asked": sorted(asked)} | lost | {"found": results}
    return (
        {"verdict": release["verdict"], "profile": (release["profile"] or {}).get("kind", "not tested")}
        | why
        | lost
        | {"found": results}
    )


def _reason(release: Mapping[str, Any]) -> str:
    """Return why a release is unusable, preferring a failing baseline to other breaking clauses."""
    if release["failed"]:
        return str(release["failed"]["what"])
    wrong = "fail" if release["verdict"] == "broken" else "not_run"
    clauses = [(load.catalogue()[result["id"]], result) for result in release["clauses"] if result["result"] == wrong]
    breaking = [(clause, result) for clause, result in clauses if clause.severity is Severity.BREAKING]
    first = min(breaking, key=lambda pair: not pair[0].baseline)[1]
    return f"{first['id']}: {first['detail']}"


def _worth_keeping(clause: Mapping[str, Any]) -> bool:
    """Return False for a pass, and for a clause that was not run because of another one."""
    needed = clause["result"] == "not_run" and clause["detail"].startswith("needs ")
    return clause["result"] != "pass" and not needed


def _clause(release: Mapping[str, Any], clause: Mapping[str, Any], *, reported: bool) -> Kept:
    detail = {"detail": _lasting(clause["detail"])} if reported and clause["result"] != "deviates" else {}
    symptoms = _symptoms(release, clause)
    return {"result": clause["result"]} | ({"symptoms": symptoms} if symptoms else {}) | detail


def _symptoms(release: Mapping[str, Any], clause: Mapping[str, Any]) -> list[str]:
    """Return the symptoms of a failure, or the declared symptoms of a deviation that are not stale."""
    if clause["result"] == "fail" and (named := re.search(r" \[([a-z0-9, -]+)\]\Z", clause["detail"])):
        return named[1].split(", ")
    if clause["result"] != "deviates":
        return []
    contract = load.contract(release["engine"]).at(release["version"])
    of_clause = [deviation for deviation in contract.deviations if deviation.clause == clause["id"]]
    # a flaky deviation that was not observed is not reported; one that was is, with its action
    declared = {
        deviation.symptom for deviation in of_clause if not deviation.flaky or deviation.action in clause["action"]
    }
    return sorted(declared - set(re.findall(r"stale: the declared deviation (\S+) did not occur", clause["detail"])))


def _lasting(text: str) -> str:
    for pattern, placeholder in CHANGING:
        text = pattern.sub(placeholder, text)
    return text


def _machine(machine: Mapping[str, Any]) -> str:
    node = f", Node.js {machine['node'].removeprefix('v')}" if machine["node"] else ""
    return f"{machine['system']} {machine['arch']}{node}"
