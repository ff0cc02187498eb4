"""Leaves what a probe found where the reference server looks for it."""

import os
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib import metadata

from turngate.contract.verdict import ClauseResult, Verdict, capability, profile, verdict
from turngate.files import default_cache
from turngate.process.probe_results import Capability, ProbeResult, save_result
from turngate_probes.releases.source import Release


def save_probe_result(release: Release, identity: str, results: Sequence[ClauseResult]) -> None:
    """Keep what all the clauses said of a release whose executable had this identity before it was run.

    Without an executable, or an answer, there is nothing to keep.
    """
    found, worth = capability(results), verdict(results)
    if release.executable is None or worth is Verdict.UNANSWERED:
        return
    save_result(
        ProbeResult(
            engine=release.engine, executable=os.path.realpath(release.executable), identity=identity,
            version=release.version, verdict=worth, capability=Capability.of(found),
            profile="resumable" if profile(found).kind == "resumable" else "sticky_process",
            at=datetime.now(UTC), turngate=metadata.version("turngate"),
        ),
        default_cache(),
    )  # fmt: skip
