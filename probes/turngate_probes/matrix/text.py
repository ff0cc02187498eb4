"""The text of a bisection: both neighbours with their evidence, the skipped releases, and all that were run."""

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.text import Text

from turngate.plain import visible
from turngate_probes.report.colours import style_of
from turngate_probes.report.text import evidence_lines, print_line


def print_bisection(console: Console, data: Mapping[str, Any]) -> None:
    """Print what a search found."""
    print_line(console, 0, Text(visible(_headline(data))))
    for answer in (data["before"], data["after"]) if data["changed"] else ():
        _print_answer(console, data["engine"], answer)
        for item in answer["evidence"]:
            for depth, line in evidence_lines(item):
                print_line(console, depth, line)
    if data["skipped"]:
        print_line(console, 0, Text("skipped, because the clause can't be run there:"))
        for answer in data["skipped"]:
            _print_answer(console, data["engine"], answer)
    names = ", ".join(each["version"] + ("" if each["result"] else " (skipped)") for each in data["asked"])
    print_line(console, 0, Text(visible(f"ran {len(data['asked'])} of {data['published']} releases: {names}")))


def _headline(data: Mapping[str, Any]) -> str:
    clause, engine = data["clause"], data["engine"]
    if not data["changed"]:
        result = next(each["result"] for each in data["asked"] if each["result"])
        return f"{clause} does not change: {_words(result)} in every release that was run and could answer"
    began = f"{clause}: {_words(data['after']['result'])} began in {engine}"
    if len(data["candidates"]) == 1:
        return f"{began} {data['candidates'][0]}"
    return f"{began}, in one of {len(data['candidates'])} releases: {', '.join(data['candidates'])}"


def _print_answer(console: Console, engine: str, answer: Mapping[str, Any]) -> None:
    result = answer["result"] or "skipped"
    line = Text(f"{engine}@{answer['version']} ").append(_words(result), style_of(result))
    print_line(console, 1, line.append(visible(f" {answer['detail']}")))


def _words(result: str) -> str:
    return result.replace("_", " ")
