"""The text of a bisection: both neighbours with their evidence, what was asked, and what was skipped."""

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.text import Text

from turngate.plain import visible
from turngate_probes.report.colours import style_of
from turngate_probes.report.text import evidence_lines, print_line


def print_bisection(console: Console, data: Mapping[str, Any]) -> None:
    """Print what a search found."""
    engine, asked = data["engine"], data["asked"]
    if data["changed"]:
        print_line(console, 0, Text(f"{data['clause']} changes between"))
        for each in (data["before"], data["after"]):
            _print_answer(console, engine, each)
            for item in each["evidence"]:
                for depth, line in evidence_lines(item):
                    print_line(console, depth, line)
    else:
        result = asked[0]["result"].replace("_", " ")
        print_line(console, 0, Text(f"{data['clause']} does not change: both ends say {result}"))
    if data["skipped"]:
        print_line(console, 0, Text("between them, but without an answer:"))
        for each in data["skipped"]:
            _print_answer(console, engine, each)
    names = ", ".join(each["version"] for each in asked)
    print_line(console, 0, Text(visible(f"asked {len(asked)} of {data['published']} releases: {names}")))


def _print_answer(console: Console, engine: str, answer: Mapping[str, Any]) -> None:
    result = answer["result"] or "unanswered"
    line = Text(f"{engine}@{answer['version']} ").append(result.replace("_", " "), style_of(result))
    print_line(console, 1, line.append(visible(f" {answer['detail']}")))
