"""Generates the part of `docs/api.md` that comes from `openapi.yaml`.

`python -m tests.reference.server.web.api_tables` updates the file. A test checks that it is up to date.
"""

import re
from pathlib import Path
from typing import Any

from turngate_reference.server.web import openapi
from turngate_reference.server.web.openapi import Operation

FILE = Path(__file__).parents[4] / "docs" / "api.md"
BEGIN = (
    "<!-- Generated from openapi.yaml. Don't edit below; run `python -m tests.reference.server.web.api_tables` -->\n"
)
_PLAIN = "What isn't valid HTTP gets 400 or 501 in plain text. [Problems](#problems) says what each code means."
_ORDER = "If several things go wrong in one turn, the run gets the first matching code in this list:\n"
BOUNDLESS = 2**32
FIRST_ERROR = 400  # among the status codes of HTTP
COMMON = {
    "BAD_JSON",
    "UNAUTHORIZED",
    "ORIGIN_REFUSED",
    "BODY_TOO_LARGE",
    "UNSUPPORTED_MEDIA_TYPE",
    "HOST_REFUSED",
    "STORE_UNAVAILABLE",
}
OF_RUNS = "RUN_NOT_FOUND"


def with_tables(text: str) -> str:
    """Return the text of the file with up-to-date tables."""
    written, begin, _ = text.partition(BEGIN)
    if not begin:
        raise ValueError(f"{FILE} has no line {BEGIN!r}")
    return written + begin + "\n" + "\n".join(_parts())


def _parts() -> list[str]:
    document = openapi.document()
    ours = document["x-turngate"]
    parts = ["## Operations\n", _everywhere()]
    parts += [_operation(operation) for operation in openapi.operations()]
    parts += [
        "## States\n",
        _table(["from", "to", "when"], [[*transition.values()] for transition in ours["transitions"]]),
    ]
    parts += ["## Why runs fail\n", _coded(ours["run_errors"].items())]
    parts += ["### Which code names a failed turn\n", _ORDER, _order(ours["error_order"])]
    parts += ["## Events\n", _coded(ours["events"].items(), "event")]
    problems = [[f"`{code}`", problem["status"], problem["when"]] for code, problem in ours["problems"].items()]
    parts += ["## Problems\n", _table(["code", "status", "meaning"], problems)]
    return parts


def _everywhere() -> str:
    codes = ", ".join(f"`{code}`" for code in openapi.problems() if code in COMMON)
    on_runs = f"Operations on one run can also return `{OF_RUNS}`."
    return f"Any operation can also return these codes, which the lists below omit: {codes}. {on_runs} {_PLAIN}\n"


def _operation(operation: Operation) -> str:
    parts = [f"### `{operation.method.upper()} {operation.path}`\n", f"{operation.definition['summary']}.\n"]
    if "description" in operation.definition:
        parts.append(operation.definition["description"].rstrip() + "\n")
    if given := [p for p in operation.parameters if p["in"] != "path"]:
        rows = [[f"`{p['name']}` ({p['in']})", _type(p["schema"]), p.get("description", "")] for p in given]
        parts.append(_table(["parameter", "type", "meaning"], rows))
    if "requestBody" in operation.definition:
        parts.append(_members(operation.definition["requestBody"]["content"]["application/json"]["schema"]))
    for status, response in operation.responses.items():
        codes = ", ".join(f"`{code}`" for code in response.get("x-codes", ()) if code not in {*COMMON, OF_RUNS})
        if codes or int(status) < FIRST_ERROR:
            parts.append(f"- {status}: {codes or _cell(response['description'])}")
    return "\n".join(parts) + "\n"


def _members(schema: dict[str, Any]) -> str:
    members = openapi.resolved(schema)
    rows = []
    for name, member in members["properties"].items():
        needed = " (required)" if name in members["required"] else ""
        rows.append([f"`{name}`{needed}", _type(member), member.get("description", "")])
    return _table(["member", "type", "meaning"], rows)


def _type(schema: dict[str, Any]) -> str:
    whole = openapi.resolved(schema.get("allOf", [schema])[0]) | schema
    if "enum" in whole:
        text = ", ".join(f"`{word}`" for word in whole["enum"])
    elif whole["type"] == "array":
        text = f"list of {whole['items']['type']}"
    else:
        text = str(whole["type"])
    least, most = whole.get("minimum"), whole.get("maximum")
    if least is not None and most is not None and most < BOUNDLESS:
        text += f", {least} to {most}"
    if "maxLength" in whole:
        text += f", at most {whole['maxLength']} characters"
    return text + (f"; default `{whole['default']}`" if whole.get("default") else "")


def _order(steps: list[dict[str, Any]]) -> str:
    rows = []
    for number, step in enumerate(steps, 1):
        rows.append([number, ", ".join(f"`{code}`" for code in step["codes"]) or "none", step["when"]])
    return _table(["#", "code", "cause"], rows)


def _coded(items: Any, name: str = "code") -> str:
    return _table([name, "meaning"], [[f"`{code}`", when] for code, when in items])


def _table(head: list[str], rows: list[list[Any]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(_cell(cell) for cell in line) + " |" for line in lines) + "\n"


def _cell(value: Any) -> str:
    return re.sub(r"\s+", " ", str(value)).strip().replace("|", "\\|")


if __name__ == "__main__":
    FILE.write_text(with_tables(FILE.read_text("utf-8")), "utf-8")
