from tests.reference.caller import Caller
from tests.tables import each

RUN = b'{"engine": "codex", "prompt": "x", "output_schema": %s}'


@each(
    "body, said",
    [
        (b"", "Expecting value"),
        (b"\xff\xfe{}", "decode"),
        (b"{'a': 1}", "property name"),
        (RUN % b'{"a": 1, "a": 2}', "'a' occurs twice"),
        (RUN % b'{"minimum": NaN}', "isn't valid JSON"),
        (RUN % b'{"minimum": -Infinity}', "isn't valid JSON"),
        (RUN % b'{"minimum": 1e999}', "isn't valid JSON"),
        (RUN % (b'{"minimum": ' + b"9" * 5000 + b"}"), "digits"),
        (RUN % (b'{"a":' * 100 + b"1" + b"}" * 100), "nested"),
        (RUN % (b'{"a":' * 100_000 + b"1" + b"}" * 100_000), "nested"),
        (RUN % b'{"a": "\\ud800"}', "surrogate"),
        (RUN % b'{"\\udfff": 1}', "surrogate"),
    ],
)
def test_a_body_is_strict_json(caller: Caller, body: bytes, said: str) -> None:
    """Invalid JSON, ambiguous JSON and JSON that can't be stored are rejected before validation."""
    answer = caller.call("POST", "/v1/runs", data=body, content_type="application/json; charset=utf-8")
    assert (answer.status, answer.json["code"]) == (400, "BAD_JSON")
    assert said in answer.json["detail"]


@each(
    "body, path, said",
    [
        ({"prompt": "x"}, "$", "'engine' is a required property"),
        ([], "$", "must be of type object"),
        ("x", "$", "must be of type object"),
        ({"engine": "codex", "prompt": " "}, "$.prompt", "must not be only white space"),
        ({"engine": "codex", "prompt": "x" * (2 * 2**20 + 1)}, "$.prompt", "2097152 or fewer characters"),
        ({"engine": "", "prompt": "x"}, "$.engine", "1 or more characters"),
        ({"engine": "codex", "prompt": "x", "color": "red"}, "$", "there is no member 'color' (known: engine, prompt"),
        ({"engine": "codex", "prompt": "x", "mode": "auto"}, "$", "'mode' (did you mean execution_mode?)"),
        ({"engine": "codex", "prompt": "x", "engine_options": ["a", 7]}, "$.engine_options[1]", "of type string"),
        ({"engine": "codex", "prompt": "x", "engine_options": ["a\0"]}, "$.engine_options[0]", "must match"),
        ({"engine": "codex", "prompt": "x", "session_timeout_sec": True}, "$.session_timeout_sec", "of type integer"),
        ({"engine": "codex", "prompt": "x", "session_timeout_sec": 86401}, "$.session_timeout_sec", "86400 or less"),
        ({"engine": "codex", "prompt": "x", "execution_mode": "yolo"}, "$.execution_mode", "one of auto, interactive"),
        (
            {"engine": "codex", "prompt": "x", "interactive_profile": "resumable"},
            "$",
            "set execution_mode to interactive",
        ),
    ],
)
def test_a_wrong_member_is_named(caller: Caller, body: object, path: str, said: str) -> None:
    """The error names the place and what is expected there, but not the value, which may be long."""
    answer = caller.post("/v1/runs", body)
    assert (answer.status, answer.json["code"]) == (422, "INVALID_REQUEST")
    assert [(e["path"], said in e["message"]) for e in answer.json["errors"]] == [(path, True)]
    assert path in answer.json["detail"]
    assert len(answer.body) < 2000


@each("key", ["", " ", "a b", "\u00e9", "x" * 256])
def test_an_odd_key_is_refused(caller: Caller, key: str) -> None:
    """An Idempotency-Key must be short and consist of visible characters."""
    answer = caller.post("/v1/runs", {"engine": "codex", "prompt": "x"}, Idempotency_Key=key)
    assert answer.json["errors"][0]["path"] == "header.Idempotency-Key"


@each("query", ["limit=0", "limit=101", "limit=x", "limit=", "before=0", "state=done", "sort=up", "limit=1&limit=2"])
def test_an_odd_parameter_is_refused(caller: Caller, query: str) -> None:
    """A parameter that is unknown, invalid or repeated is rejected instead of ignored."""
    answer = caller.get(f"/v1/runs?{query}")
    assert answer.json["errors"][0]["path"] == f"query.{query.partition('=')[0]}"


def test_a_text_of_digits_stays_a_text(caller: Caller) -> None:
    """A text parameter may look like a number."""
    answer = caller.get("/v1/runs?engine=0")
    assert (answer.status, answer.json["runs"]) == (200, [])
