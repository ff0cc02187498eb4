"""Every bench: what it measures, its rows, and the function that measures them."""

import traceback
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

import msgspec

from tests.tools.bench import (
    codex_turns,
    conform_figures,
    fleet_figures,
    help_time,
    matrix_figures,
    probe_figures,
    report_figures,
    resume_overhead,
    saved,
    server_figures,
    sticky_figures,
    sticky_resume_figures,
    throughput,
)
from tests.tools.bench.form import SHORT_LABEL
from tests.tools.bench.rows import Measured, Row


class Bench(NamedTuple):
    """What a bench measures, its rows, and the function that yields them measured."""

    title: str
    rows: tuple[Row, ...]
    run: Callable[..., Iterator[Measured]]


BENCHES = {
    "help": Bench("turngate --help and doctor, against importing click", help_time.ROWS, help_time.bench),
    "resume": Bench("start and resume, over their engine's own time", resume_overhead.ROWS, resume_overhead.bench),
    "conform": Bench("turngate conform, over the orchestrator's own time", conform_figures.ROWS, conform_figures.bench),
    "server": Bench("the server, against its engine called directly", server_figures.ROWS, server_figures.bench),
    "fleet": Bench("the example fleet, against the server", fleet_figures.ROWS, fleet_figures.bench),
    "codex": Bench("two turns of the real codex, against its bare CLI", codex_turns.ROWS, codex_turns.bench),
    "sticky-resume": Bench(
        "a sticky process, against a resume per turn", sticky_resume_figures.ROWS, sticky_resume_figures.bench
    ),
    "sticky": Bench("how late sticky runs end at their deadlines", sticky_figures.ROWS, sticky_figures.bench),
    "throughput": Bench("reading a long turn, against parsing alone", throughput.ROWS, throughput.bench),
    "matrix": Bench("20 releases of codex, against their own CPU time", matrix_figures.ROWS, matrix_figures.bench),
    "report": Bench("a report of 139 releases, against plain JSON", report_figures.ROWS, report_figures.bench),
    "probe": Bench("the pinned releases, against their own CPU time", probe_figures.ROWS, probe_figures.bench),
}
ROWS = tuple(row for bench in BENCHES.values() for row in bench.rows)


class Outcome(NamedTuple):
    """What was measured, the benches that failed to measure all of their rows, and whether Ctrl-C ended the run."""

    measurement: saved.Measurement
    failed: list[str]
    interrupted: bool


def measure(
    benches: Mapping[str, Bench], *, short: bool, keep: Callable[[saved.Measurement], None] = lambda _: None
) -> Outcome:
    """Run benches, and call `keep` after each row with everything measured so far."""
    busy = saved.busy()
    failed: list[str] = []
    new = saved.Measurement(saved.host(), short, ())
    print(f"busy before the first bench: {busy:.1f} cores", flush=True)
    for name, bench in benches.items():
        print(f"{name}: {bench.title}" + (f" ({SHORT_LABEL})" if short else ""), flush=True)
        units = {row.name: row.unit for row in bench.rows}
        try:
            for measured in bench.run(short=short):
                row = saved.today(measured, units.pop(measured.name), busy)
                new = msgspec.structs.replace(new, rows=(*new.rows, row))
                keep(new)
        except KeyboardInterrupt:
            return Outcome(new, failed, interrupted=True)
        except Exception:  # noqa: BLE001 - the other benches are measured all the same
            traceback.print_exc()
        failed += [name] * bool(units)
    return Outcome(new, failed, interrupted=False)
