"""Reading the messages of a release from the TypeScript declarations of another package."""

import io
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tests.contracts.test_history import known, release
from tests.tools.history import type_file
from tests.tools.history.type_file import schema, with_types
from turngate import Stop
from turngate_probes.journal.protocol import protocol

TYPES = """
/** A message; not a type Other = 'x'; */
export declare type Message = Said | core.Result | {
    type: 'system';
    subtype: 'init';
    mode: ('plan' | "auto") | null;  // the mode
    'odd-key'?: Record<string, { a: string }>;
};
declare type Said = { type: 'said'; text: string; list?: string[]; on(x: number): void; [key: string]: unknown };
declare type Result = Done | Failed;
type Done = { type: 'result'; subtype: 'success'; ask?: (x: { a: 1 }) => Promise<void>; last: string };
type Failed = { type: 'result'; subtype: 'a' | 'b'; };
export declare type Hook = Base & { hook_event_name: 'Start'; source: Source };
type Base = { cwd: string };
type Source = 'new' | 'old';
type Hooks = Hook | Hook;
type Odd<T> = T extends string ? { never: T } : never;
type Loop = Loop;
"""
EXPECTED = {
    "message said": "",
    "message said: type": "required",
    "message said: text": "required",
    "message said: list": "optional",
    "message result/success": "",
    "message result/success: type": "required",
    "message result/success: subtype": "required",
    "message result/success: ask": "optional",
    "message result/success: last": "required",
    "message result": "",
    "message result: type": "required",
    "message result: subtype": "required: a|b",
    "message system/init": "",
    "message system/init: type": "required",
    "message system/init: subtype": "required",
    "message system/init: mode": "required: auto|plan",
    "message system/init: odd-key": "optional",
    "hook Start": "",
    "hook Start: cwd": "required",
    "hook Start: hook_event_name": "required",
    "hook Start: source": "required: new|old",
}


def test_messages_are_read_from_declarations() -> None:
    """Comments, functions and generic types say nothing; variants of variants and intersections count."""
    places = {"message": "definitions/Message", "hook": "definitions/Hooks"}
    assert protocol(places, json.dumps(schema(TYPES))) == EXPECTED
    assert schema("type A = {") == {"definitions": {"A": {"properties": {}, "required": []}}}


def test_the_package_that_names_a_release_has_its_messages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its file is read from the archive; a release that no package names gets no facts."""

    def npm(args: tuple[str, ...], _: Any) -> str:
        if args[0] == "view":
            return json.dumps([{"version": "0.3.1", "claudeCodeVersion": "2.1.330"}, {"version": "0.3.2"}])
        assert args[1] == "@anthropic-ai/claude-agent-sdk@0.3.1"
        text = b"type PermissionMode = 'plan' | 'auto';"
        with tarfile.open(Path(args[3]) / "sdk.tgz", "w:gz") as archive:
            member = tarfile.TarInfo("package/sdk.d.ts")
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text))
        return ""

    monkeypatch.setattr(type_file, "npm", npm)
    ours = replace(known(release("2.1.330"), release("2.1.331")), engine="claude")
    after = with_types(ours, ["2.1.330", "2.1.331"], Stop())
    assert [each.facts for each in after.releases] == [
        {"protocol/type file": {"permission mode plan": "", "permission mode auto": ""}},
        {},
    ]
