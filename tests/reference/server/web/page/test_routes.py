"""Tests of what a user does in a browser: log in, start a run, reply, cancel."""

import json
import re
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.reference import cli_env as d
from tests.reference.caller import TOKEN, Caller
from tests.reference.server.web.page.surfer import ORIGIN, Surfer, words
from tests.reference.server_env import ASK, ServerEnv, final
from tests.tables import each
from turngate_reference.access import Logouts, new_code
from turngate_reference.server.orchestrator import workspace_files
from turngate_reference.server.store import runs
from turngate_reference.server.web.security import RequestCheck
from turngate_reference.server.web.streams import EventStreams
from turngate_reference.states import State

PAGES = ("/", "/runs", "/new")


@pytest.fixture(name="env")
def _env(server_env: ServerEnv) -> ServerEnv:
    """Install a Codex that asks in turn 1 and ends the run in turn 2."""
    server_env.cli_env.engine("codex", d.codex(ASK), d.codex(final(colour="red")))
    return server_env


@pytest.fixture(name="surfer")
def _surfer(env: ServerEnv) -> Surfer:
    """Provide a browser."""
    return Surfer(Caller(env.server))


def test_a_question_is_answered_by_its_option(env: ServerEnv, surfer: Surfer) -> None:
    """The inbox shows the question, a button sends the option, and the run succeeds."""
    run_id, _ = env.ask()
    inbox = surfer.text("/")
    for said in ("1 run is waiting for you", run_id[-8:], "codex 0.169.0", "no deadline", "paint it", "Which colour?"):
        assert said in inbox
    answer = surfer.send(f"/runs/{run_id}/reply", form=surfer.hidden("/"), option="1")
    assert (answer.status_code, answer.headers["Location"]) == (303, f"/?sent={run_id}")
    assert f"Your reply to {run_id[-8:]} was sent." in surfer.text(answer.headers["Location"])
    assert "was sent" not in surfer.text("/?sent=zzzzzzzz")
    env.wait(run_id, State.SUCCEEDED)
    assert runs.last_answer(env.server.store, run_id, 2) == "blue"
    assert "No run is waiting for you" in surfer.text("/")
    assert '"colour": "red"' in surfer.text(f"/runs/{run_id}")


def test_a_double_click_is_one_reply(env: ServerEnv, surfer: Surfer) -> None:
    """Sending the same form twice gets the same answer and starts one turn."""
    run_id, _ = env.ask()
    form = surfer.hidden(f"/runs/{run_id}")
    for _ in range(2):
        answer = surfer.send(f"/runs/{run_id}/reply", form=form, option="0")
        assert (answer.status_code, answer.headers["Location"]) == (303, f"/runs/{run_id}?sent=1")
    env.wait(run_id, State.SUCCEEDED)
    assert len(env.cli_env.calls()) == 2


@pytest.mark.parametrize("second", [{"option": "0"}, {"option": "1"}, {"text": "green"}])
def test_a_second_tab_is_told_that_the_question_is_closed(
    env: ServerEnv, surfer: Surfer, second: dict[str, str]
) -> None:
    """Any second reply gets a 409 page with the text that was entered and the answer that won, and starts no turn."""
    run_id, _ = env.ask()
    first, other = surfer.hidden("/"), surfer.hidden("/")
    assert surfer.send(f"/runs/{run_id}/reply", form=first, option="0").status_code == 303
    env.wait(run_id, State.SUCCEEDED)
    answer = surfer.send(f"/runs/{run_id}/reply", form=other | second)
    assert answer.status_code == 409
    assert "This question is closed" in words(answer.text)
    assert "Your reply was not sent" in words(answer.text)
    assert "The answer that was taken: red" in words(answer.text)
    assert second.get("text", "") in words(answer.text)
    assert len(env.cli_env.calls()) == 2


def test_an_old_question_is_not_answered_by_a_new_one(env: ServerEnv, surfer: Surfer) -> None:
    """An option of an earlier question is never applied to a later question of the same run."""
    env.cli_env.engine("codex", d.codex(ASK), d.codex(ASK))
    run_id, question = env.ask()
    old = surfer.hidden("/")
    env.reply(run_id, question)
    env.wait(run_id, State.WAITING_USER)
    later = env.question(run_id)
    while later.interaction_id == question.interaction_id:
        later = env.question(run_id)
    assert surfer.send(f"/runs/{run_id}/reply", form=old, option="1").status_code == 409
    assert env.question(run_id) == later


def test_an_own_answer_is_sent_as_it_is(env: ServerEnv, surfer: Surfer) -> None:
    """Line breaks arrive as typed, and markup is plain text."""
    run_id, _ = env.ask()
    surfer.send(f"/runs/{run_id}/reply", form=surfer.hidden("/"), text="<b>green</b>\r\nor so")
    env.wait(run_id, State.SUCCEEDED)
    assert runs.last_answer(env.server.store, run_id, 2) == "<b>green</b>\nor so"


def test_an_empty_answer_is_refused_in_words(env: ServerEnv, surfer: Surfer) -> None:
    """An empty reply is rejected with an explanation, and the run keeps waiting."""
    run_id, _ = env.ask()
    answer = surfer.send(f"/runs/{run_id}/reply", form=surfer.hidden("/"), text=" ")
    assert answer.status_code == 422
    assert "Invalid request response: must not be only white space." in words(answer.text)
    assert "openapi" not in answer.text
    assert env.run(run_id).state is State.WAITING_USER


def test_a_run_is_started_once_by_a_form(env: ServerEnv, surfer: Surfer) -> None:
    """A double click creates one run; the same form with another prompt creates a second one."""
    env.cli_env.engine("codex", d.codex(ASK), d.codex(ASK))
    form = surfer.hidden("/new")
    request = {**form, "engine": "codex", "prompt": "paint it", "execution_mode": "interactive", "model": ""}
    first, again = (surfer.send("/runs", form=request).headers["Location"] for _ in range(2))
    other = surfer.send("/runs", form=request | {"prompt": "paint all"}).headers["Location"]
    assert first == again != other
    run_id = first.removeprefix("/runs/")
    assert env.question(run_id).turn_index == 1
    assert env.run(run_id).launch.prompt == "paint it"
    assert len(runs.summaries(env.server.store)) == 2
    assert "paint all" in surfer.text("/runs")


def test_a_refused_run_can_be_mended(surfer: Surfer) -> None:
    """The form comes back with the reason and everything that was entered."""
    answer = surfer.send("/runs", engine="codex", prompt="<paint>", execution_mode="auto", workspace="/etc", model="o9")
    assert answer.status_code == 422
    assert "The run was not started. This server has no workspace root" in words(answer.text)
    assert "&lt;paint&gt;</textarea>" in answer.text
    assert 'value="o9"' in answer.text
    assert surfer.send("/runs", engine="codex", prompt="x", output_schema="{").status_code == 422
    assert surfer.send("/runs", engine="codex", prompt="x", session_timeout_sec="soon").status_code == 422


def test_a_risk_is_accepted_in_two_steps(env: ServerEnv, surfer: Surfer) -> None:
    """The context is open, no consent is the main button, and each answer is opened before it can be sent."""
    asked = json.loads(ASK)
    asked["interaction"] |= {"kind": "risk_ack", "options": [], "context": {"command": "rm -rf build"}}
    env.cli_env.engine("codex", d.codex(json.dumps(asked)), d.codex(final(colour="red")))
    run_id, _ = env.ask()
    page = surfer.open("/").text
    risk, _, form = page.partition('<form class="steps"')
    assert "rm -rf build" in words(risk.rpartition('<div class="risk">')[2])
    form = form.partition("</form>")[0]
    assert (form.count("<details"), form.count("<button"), form.count('class="main"')) == (2, 2, 0)
    surfer.send(f"/runs/{run_id}/reply", form=surfer.hidden("/"), option="0")
    env.wait(run_id, State.SUCCEEDED)
    assert runs.last_answer(env.server.store, run_id, 2) == "I accept the risk"


def test_a_request_for_approval_is_shown_as_it_is(env: ServerEnv, surfer: Surfer) -> None:
    """Markdown could hide a part of a command, so only a question of the agent is formatted."""
    asked = json.loads(ASK)
    command = "rm *a* [b](http://c)"
    asked["interaction"] |= {"kind": "risk_ack", "prompt": command, "context": {"command": command}}
    env.cli_env.engine("codex", d.codex(json.dumps(asked)))
    run_id, _ = env.ask()
    assert surfer.open(f"/runs/{run_id}").text.count("<em>a</em>") == 2
    with env.server.store.writing() as connection:
        connection.execute("UPDATE interactions SET request_id = '1'")
    page = surfer.open(f"/runs/{run_id}").text
    assert "<em>" not in page
    assert page.partition("Details")[0].count(f">{command}<") == 2


def test_a_waiting_run_is_canceled(env: ServerEnv, surfer: Surfer) -> None:
    """The page of a run has a cancel button until the run has ended."""
    run_id, _ = env.ask()
    assert "Cancel the run" in surfer.text(f"/runs/{run_id}")
    assert surfer.send(f"/runs/{run_id}/cancel").status_code == 303
    assert env.run(run_id).state is State.CANCELED
    assert "Cancel the run" not in surfer.text(f"/runs/{run_id}")


def test_the_page_of_a_run_is_a_conversation(env: ServerEnv, surfer: Surfer) -> None:
    """It shows task, texts, questions, answers and the result in order; commands, output and events come after them."""
    env.cli_env.engine(
        "codex", d.codex("Here is **one** pot.", ASK), d.codex(f"Done.\n```json\n{final(colour='red')}\n```")
    )
    run_id, question = env.ask(prompt="Paint the door.\n\nSlowly.")
    page = surfer.text(f"/runs/{run_id}")
    for said in (
        "Turn 1",
        "asked you",
        "exit code 0",
        "exec --json",
        "thread.started",
        "waiting for you, turn 1",
        run_id,
    ):
        assert said in page
    assert "waiting_user" not in page.partition("Details")[0]
    assert '<span class="unbroken">--json</span>' in surfer.open(f"/runs/{run_id}").text
    env.reply(run_id, question, "the blue one <b>")
    env.wait(run_id, State.SUCCEEDED)
    page = surfer.open(f"/runs/{run_id}").text
    assert '<h1 dir="auto">Paint the door.</h1>' in page
    assert "<strong>one</strong>" in page
    shown = words(page.partition("<main")[2])
    order = [
        "Paint the door.",
        "Slowly.",
        "Here is one pot.",
        "Which colour?",
        "You ·",
        "the blue one <b>",
        "Done.",
        "Result colour red",
        "Details",
        '"colour": "red"',
        "exec --json",
    ]
    places = [shown.index(said) for said in order]
    assert places == sorted(places)
    assert '"outcome"' not in shown.partition("Details")[0]


def test_what_an_engine_reports_is_shown_with_its_turn(env: ServerEnv, surfer: Surfer) -> None:
    """An error after which the turn went on stands below its texts, before the result, as text."""
    error = {"type": "item.completed", "item": {"type": "error", "message": "no <b>metadata</b>"}}
    env.cli_env.engine("codex", d.codex(final(colour="red"), more=[["stdout", json.dumps(error) + "\n"]]))
    run_id = env.create()
    env.wait(run_id, State.SUCCEEDED)
    shown = words(surfer.open(f"/runs/{run_id}").text.partition("<main")[2])
    assert "Error: no <b>metadata</b> Result colour red" in shown


def test_a_failed_run_says_why(env: ServerEnv, surfer: Surfer) -> None:
    """The page shows what the agent said, and the reason in the engine's words."""
    env.cli_env.engine("codex", d.codex("All done, I think."), [["stderr", "out of paint"], ["exit", 3]])
    first = env.create(execution_mode="interactive")
    env.failed(first)
    shown = surfer.text(f"/runs/{first}").partition("Details")[0]
    assert shown.index("All done, I think.") < shown.index("The run failed:") < shown.index("ENVELOPE_INVALID")
    second = env.create()
    env.failed(second)
    assert "out of paint" in surfer.text(f"/runs/{second}").partition("Details")[0]


def test_a_failed_run_is_continued_or_tried_again(env: ServerEnv, surfer: Surfer) -> None:
    """Its page offers both; a second click on "Try again" starts no second run."""
    env.keep_session()
    env.cli_env.engine("codex", d.codex("no envelope"), d.codex(ASK))
    run_id = env.create(execution_mode="interactive", model="o9")
    env.failed(run_id)
    before, form = surfer.text(f"/runs/{run_id}"), surfer.hidden(f"/runs/{run_id}")
    again = [surfer.send(f"/runs/{run_id}/again", form=form).headers["Location"] for _ in range(2)]
    assert again[0] == again[1] != f"/runs/{run_id}"
    env.question(again[0].removeprefix("/runs/"))
    assert env.run(again[0].removeprefix("/runs/")).launch == env.run(run_id).launch
    answer = surfer.send(f"/runs/{run_id}/continue", form=form, text=" ")
    assert answer.status_code == 422
    assert surfer.send(f"/runs/{run_id}/continue", form=form, text="ask me").status_code == 303
    env.question(run_id)
    assert "The session is intact, and the run can go on." in before
    shown = surfer.text(f"/runs/{run_id}").partition("Details")[0]
    order = ["no envelope", "The run failed:", "ENVELOPE_INVALID", "ask me", "Which colour?"]
    places = [shown.index(said) for said in order]
    assert places == sorted(places)
    assert "Try again" not in shown


@pytest.mark.parametrize("end", ["succeeded", "canceled"])
def test_a_run_is_continued_on_its_page_whatever_its_end(env: ServerEnv, surfer: Surfer, end: str) -> None:
    """The earlier result is in its conversation, and the result of the run is the new one."""
    env.cli_env.engine(
        "codex", d.codex(ASK), *[d.codex(final(coats=1))] * (end == "succeeded"), d.codex(final(coats=2))
    )
    run_id, question = env.ask()
    if end == "canceled":
        surfer.send(f"/runs/{run_id}/cancel")
    else:
        env.reply(run_id, question)
    env.wait(run_id, State(end))
    form = surfer.hidden(f"/runs/{run_id}")
    assert surfer.send(f"/runs/{run_id}/continue", form=form, text="once more").status_code == 303
    env.wait(run_id, State.SUCCEEDED)
    shown = surfer.text(f"/runs/{run_id}").partition("Details")[0]
    order = ["Which colour?", *["coats 1"] * (end == "succeeded"), "How should it go on?", "once more", "coats 2"]
    places = [shown.index(said) for said in order]
    assert places == sorted(places)


def test_a_reply_that_was_not_sent_is_offered_again(env: ServerEnv, surfer: Surfer) -> None:
    """The page says why, and the reply is in the field; once it is sent, it is shown once."""
    run_id, question = env.ask()
    executable = env.cli_env.path / "codex"
    good = executable.read_text()
    executable.write_text("#!/no/such/interpreter\n")
    env.reply(run_id, question, "<sky>\nblue")
    env.wait_for_state(run_id, "waiting_user", times=2)
    page = surfer.open(f"/runs/{run_id}").text
    assert "Your reply was not sent: " in words(page)
    assert "could not be started" in words(page)
    for shown in (page, surfer.open("/").text):
        assert ">\n&lt;sky&gt;\nblue</textarea>" in shown
    executable.write_text(good)
    env.reply(run_id, question, "<sky>\nblue")
    env.wait(run_id, State.SUCCEEDED)
    assert surfer.text(f"/runs/{run_id}").partition("Details")[0].count("<sky> blue") == 1


def test_a_reply_whose_session_is_gone_is_offered_once_that_is_back(env: ServerEnv, surfer: Surfer) -> None:
    """Until then, the page of the failed run shows it."""
    run_id, question = env.ask()
    session = env.keep_session()
    aside = session.rename(session.with_suffix(".aside"))
    env.reply(run_id, question, "sky blue")
    env.failed(run_id)
    shown = surfer.text(f"/runs/{run_id}")
    assert "Your last reply was not sent: sky blue" in shown
    assert "Continue in the same session" not in shown
    aside.rename(session)
    assert ">\nsky blue</textarea>" in surfer.open(f"/runs/{run_id}").text
    store = session.parents[4]
    aside = store.rename(store.with_name("aside"))
    assert "can't be continued at the moment: the session store of codex isn't there any more" in surfer.text(
        f"/runs/{run_id}"
    )
    aside.rename(store)


def test_a_canceled_run_is_no_error(env: ServerEnv, surfer: Surfer) -> None:
    """Neither its turn nor its page speaks of an error or an exit code."""
    env.cli_env.engine("codex", [["hang"]])
    run_id = env.create()
    env.wait(run_id, State.RUNNING)
    surfer.send(f"/runs/{run_id}/cancel")
    env.wait(run_id, State.CANCELED)
    page = surfer.text(f"/runs/{run_id}").partition("Events")[0]
    assert "The run was canceled" in page
    assert "Turn 1 canceled" in page
    assert not any(said in page for said in ("error", "failed", "exit code", "-15"))


def test_what_a_run_changed_can_be_looked_at(env: ServerEnv, surfer: Surfer) -> None:
    """Files are listed by path with what happened to them, and a download is never a page."""
    first = [["write", "door.txt", "green\n"], ["write", "<b>.html", "<script>alert(1)</script>"]]
    second = [["write", "door.txt", "red\n"], ["remove", "<b>.html"], ["link", "/etc/passwd", "link"]]
    env.cli_env.engine("codex", d.codex(ASK, more=first), d.codex(final(colour="red"), more=second))
    run_id, question = env.ask()
    page = surfer.open(f"/runs/{run_id}").text
    assert "added" in words(page.partition('class="files"')[2].partition("</ul>")[0])
    shown = surfer.open(f"/runs/{run_id}/file?path=%3Cb%3E.html").text
    assert "&lt;script&gt;alert(1)" in shown
    assert "<script>alert" not in shown
    answer = surfer.open(f"/runs/{run_id}/download?path=%3Cb%3E.html")
    assert (answer.mimetype, answer.headers["Content-Disposition"][:10]) == ("text/plain", "attachment")
    assert answer.headers["Content-Security-Policy"] == "default-src 'none'; sandbox"
    env.reply(run_id, question)
    env.wait(run_id, State.SUCCEEDED)
    listed = surfer.open(f"/runs/{run_id}").text.partition('class="files"')[2].partition("</ul>")[0]
    assert words(listed).startswith("> added door.txt 4 bytes")
    assert "link" not in listed
    assert ".html" not in listed  # added and deleted again
    assert '<pre class="file" tabindex="0">red\n' in surfer.open(f"/runs/{run_id}/file?path=door.txt").text
    for path in ("link", "../../../etc/passwd", "/etc/passwd", ""):
        assert surfer.open(f"/runs/{run_id}/file?path={quote(path)}").status_code == 404
        assert surfer.open(f"/runs/{run_id}/download?path={quote(path)}").status_code == 404


def test_files_are_shown_as_text(closed_server_env: ServerEnv, tmp_path: Path) -> None:
    """A changed file is a patch, a new one is its text, and nothing in them is markup."""
    (tmp_path / "a").mkdir()
    (tmp_path / "a/door.txt").write_text("green\n")
    writes = [["write", "door.txt", "red\n"], ["write", "paint.py", "x = '</span><b>'  # <script>\n"]]
    closed_server_env.keep_session()
    closed_server_env.cli_env.engine("codex", d.codex(final(colour="red"), more=writes))
    with closed_server_env.opened(workspace_root=tmp_path) as server:
        run_id = closed_server_env.create(workspace="a")
        closed_server_env.wait(run_id, State.SUCCEEDED)
        patch, source = (
            Surfer(Caller(server)).open(f"/runs/{run_id}/file?path={path}").text for path in ("door.txt", "paint.py")
        )
    assert "@@ -1 +1 @@\n-green\n+red\n" in patch
    assert "x = &#39;&lt;/span&gt;&lt;b&gt;&#39;  # &lt;script&gt;\n" in source


def test_a_turn_counts_without_its_changes(env: ServerEnv, surfer: Surfer, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the files can't be compared because of an error of ours, the page says so, and the run goes on."""
    monkeypatch.setattr(workspace_files, "changes", lambda *_: 1 / 0)
    run_id, _ = env.ask()
    assert "Some changes may be missing: turngate failed" in surfer.text(f"/runs/{run_id}")


def test_every_page_is_locked_down(surfer: Surfer) -> None:
    """Pages have no inline or external scripts and styles, can't be framed, and aren't cached."""
    for path in (*PAGES, "/runs/x", "/static/page.js"):
        answer = surfer.open(path)
        policy = dict(part.strip().partition(" ")[::2] for part in answer.headers["Content-Security-Policy"].split(";"))
        assert policy["default-src"] == policy["frame-ancestors"] == policy["base-uri"] == "'none'"
        assert {policy[name] for name in ("script-src", "style-src", "connect-src", "form-action")} == {"'self'"}
        assert (answer.headers["X-Frame-Options"], answer.headers["Cache-Control"]) == ("DENY", "no-store")
        assert answer.headers["Referrer-Policy"] == "same-origin"
        assert not any(inside in answer.text for inside in (" style=", "<style", " onclick", "javascript:"))


def test_no_other_site_replies(env: ServerEnv, surfer: Surfer, subtests: pytest.Subtests) -> None:
    """Forms from other sites, from another port of this machine, or without an origin are rejected."""
    run_id, _ = env.ask()
    form = surfer.hidden("/")
    forms: tuple[dict[str, str], ...] = (
        {},
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://localhost:9999"},
        {"Origin": ORIGIN, "Sec-Fetch-Site": "cross-site"},
        {"Origin": ORIGIN, "Sec-Fetch-Site": "same-site"},
    )
    for headers in forms:
        actions = [f"/runs/{run_id}/{action}" for action in ("reply", "cancel", "again", "continue")]
        for path in (*actions, "/runs", "/logout"):
            with subtests.test(headers=headers, path=path):
                answer = surfer.send(path, headers, form, option="0", engine="codex", prompt="x")
                assert answer.status_code == 403
                foreign = "did not come from a page of this server"
                assert foreign in words(answer.text) or "are not allowed" in answer.text
    assert env.run(run_id).state is State.WAITING_USER
    assert len(runs.summaries(env.server.store)) == 1


def test_another_site_may_link_but_not_read(surfer: Surfer) -> None:
    """Following a link from another site works; requests by its scripts or frames are rejected."""
    elsewhere = {"Sec_Fetch_Site": "cross-site"}
    assert surfer.open("/", **elsewhere, Sec_Fetch_Mode="navigate").status_code == 200
    assert surfer.open("/", **elsewhere, Sec_Fetch_Mode="no-cors").status_code == 403
    assert surfer.open("/live", **elsewhere, Sec_Fetch_Mode="cors").status_code == 403
    assert surfer.open("/", Host="rebound.example").status_code == 421


def test_the_token_is_asked_for_once(env: ServerEnv) -> None:
    """After login, the requested page is shown; the token is in no URL and no cookie."""
    surfer = Surfer(Caller(env.server, RequestCheck(TOKEN)))
    for path in (*PAGES, "/live", "/runs/x"):
        assert surfer.open(path).status_code == 401
    asked = surfer.open("/runs?state=failed")
    assert 'name="next" value="/runs?state=failed"' in asked.text
    assert surfer.open("/static/page.css").status_code == 200
    wrong = surfer.send("/login", token=f"{TOKEN}x", next="/runs")
    assert wrong.status_code == 401
    assert "not the server's token" in words(wrong.text)
    right = surfer.send("/login", token=TOKEN, next="/runs?state=failed")
    assert (right.status_code, right.headers["Location"]) == (303, "/runs?state=failed")
    cookie = right.headers["Set-Cookie"]
    assert {"HttpOnly", "SameSite=Strict", "Path=/"} <= set(cookie.split("; "))
    assert TOKEN not in cookie
    assert [surfer.open(path).status_code for path in PAGES] == [200] * 3
    assert surfer.open("/v1/runs").status_code == 401  # the API accepts only the token
    surfer.send("/logout")
    assert surfer.open("/").status_code == 401


def test_a_logout_makes_the_cookie_void_everywhere(env: ServerEnv, tmp_path: Path) -> None:
    """A copy of the cookie is refused after the logout, also by the next server; another login of the user stays."""
    file = tmp_path / "logouts"

    def caller() -> Caller:
        return Caller(env.server, RequestCheck(TOKEN, logouts=Logouts(file)))

    server = caller()
    mine, other = Surfer(server), Surfer(server)
    cookies = [surfer.send("/login", token=TOKEN).headers["Set-Cookie"].partition(";")[0] for surfer in (mine, other)]

    def statuses(asked: Caller) -> list[int]:
        client = asked.app.test_client(use_cookies=False)
        return [client.get("/", headers={"Cookie": cookie}).status_code for cookie in cookies]

    assert statuses(server) == [200, 200]
    mine.send("/logout")
    assert statuses(server) == [401, 200]
    assert statuses(caller()) == [401, 200]
    assert file.stat().st_mode & 0o077 == 0


def test_nothing_else_is_open(env: ServerEnv) -> None:
    """Without the token, every path but those of the login form answers 401, whether it exists or not."""
    caller = Caller(env.server, RequestCheck(TOKEN))
    reported = set()
    for rule in caller.app.url_map.iter_rules():
        path = re.sub("<[^>]+>", "page.css" if rule.endpoint == "page.static" else "x", rule.rule)
        for method in (rule.methods or set()) - {"OPTIONS"}:
            answer = caller.app.test_client().open(path, method=method, headers={"Origin": ORIGIN})
            reported |= set() if answer.status_code == 401 else {path}
            answer.close()
    assert reported == {"/healthz", "/login", "/static/page.css"}
    assert caller.app.test_client().get("/no/such/path").status_code == 401


def test_a_mistyped_address_is_answered_with_a_page(env: ServerEnv) -> None:
    """A browser is asked for the token, and then shown what is wrong; a program gets a document."""
    surfer, accepted = Surfer(Caller(env.server, RequestCheck(TOKEN))), "text/html,application/xml;q=0.9,*/*;q=0.8"
    asked = surfer.open("/rnus", Accept=accepted)
    assert (asked.status_code, 'name="next" value="/rnus"' in asked.text) == (401, True)
    surfer.send("/login", token=TOKEN)
    shown = surfer.open("/rnus", Accept=accepted)
    assert (shown.status_code, shown.mimetype) == (404, "text/html")
    assert "Inbox Runs Start a run" in words(shown.text)
    assert "Log out Unknown path This server has no page '/rnus'." in words(shown.text)
    assert "default-src" in shown.headers["Content-Security-Policy"]
    assert surfer.open("/rnus", Accept="*/*").mimetype == "application/problem+json"
    assert surfer.open("/v1/runs", Accept=accepted).status_code == 401


def test_the_address_of_a_form_leads_back_to_it(env: ServerEnv, surfer: Surfer) -> None:
    """A reload after a refused form, which opens its address, does nothing and leads to the page that has the form."""
    run_id, _ = env.ask()
    for form in ("reply", "again", "continue", "cancel"):
        answer = surfer.open(f"/runs/{run_id}/{form}")
        assert (answer.status_code, answer.headers["Location"]) == (303, f"/runs/{run_id}")
    assert env.run(run_id).state is State.WAITING_USER
    other = Surfer(Caller(env.server, RequestCheck(TOKEN)))
    other.send("/login", token=TOKEN)
    assert other.open("/logout").headers["Location"] == "/"
    assert other.open("/").status_code == 200


def test_a_code_opens_the_page_once(env: ServerEnv) -> None:
    """It is exchanged for a session by a redirect to an address without it; later uses lead to the form."""
    surfer, code = Surfer(Caller(env.server, RequestCheck(TOKEN))), new_code(TOKEN)
    assert surfer.client.head(f"/login?code={code}").status_code == 401  # as link previews do; the code stays valid
    answer = surfer.open(f"/login?code={code}")
    assert (answer.status_code, answer.headers["Location"]) == (303, "/")
    assert answer.headers["Referrer-Policy"] == "no-referrer"
    assert {"HttpOnly", "SameSite=Strict", "Path=/"} <= set(answer.headers["Set-Cookie"].split("; "))
    assert not any(secret in f"{answer.headers}{answer.text}" for secret in (code, TOKEN))
    assert [surfer.open(path).status_code for path in PAGES] == [200] * 3
    assert surfer.open("/v1/runs").status_code == 401
    assert surfer.open(f"/login?code={code}").headers["Location"] == "/"  # this browser is logged in anyway
    other = Surfer(Caller(env.server, RequestCheck(TOKEN)))
    for void in (new_code(f"{TOKEN}x"), "", "x"):
        answer = other.open(f"/login?code={void}")
        assert (answer.headers["Location"], answer.headers["Referrer-Policy"]) == ("/login?void=1", "no-referrer")
        assert "Set-Cookie" not in answer.headers
    assert "was used before, or is too old" in other.text("/login?void=1")
    assert other.open("/").status_code == 401


def test_another_site_uses_up_no_code(env: ServerEnv) -> None:
    """A request that a page of another site makes the browser send, such as for an image, is refused before."""
    surfer, code = Surfer(Caller(env.server, RequestCheck(TOKEN))), new_code(TOKEN)
    refused = surfer.open(f"/login?code={code}", Sec_Fetch_Site="cross-site", Sec_Fetch_Mode="no-cors")
    assert refused.status_code == 403
    assert surfer.open(f"/login?code={code}", Host="rebound.example").status_code == 421
    assert surfer.open(f"/login?code={code}").headers["Location"] == "/"


def test_a_reply_without_a_session_is_not_sent(env: ServerEnv) -> None:
    """The login page is shown instead."""
    run_id, question = env.ask()
    surfer = Surfer(Caller(env.server, RequestCheck(TOKEN)))
    answer = surfer.send(f"/runs/{run_id}/reply", interaction_id=question.interaction_id, option="0")
    assert answer.status_code == 401
    assert env.run(run_id).state is State.WAITING_USER


@each("wanted", ["//evil.example", "/\\evil.example", "http://evil.example", "", "/\r\nX: y", "runs"])
def test_a_login_leads_nowhere_else(env: ServerEnv, wanted: str) -> None:
    """Anything but a path of this server leads to the inbox."""
    surfer = Surfer(Caller(env.server, RequestCheck(TOKEN)))
    assert surfer.send("/login", token=TOKEN, next=wanted).headers["Location"] == "/"


def test_without_a_token_nobody_logs_in(surfer: Surfer) -> None:
    """Without a token, the login page redirects to the inbox and sets no cookie."""
    assert surfer.open("/login").headers["Location"] == "/"
    assert "Set-Cookie" not in surfer.send("/login", token="x").headers
    assert surfer.open(f"/login?code={new_code(TOKEN)}").headers["Location"] == "/"


def test_whatever_is_said_is_text(env: ServerEnv, surfer: Surfer) -> None:
    """Markup from a model or a caller is escaped on every page, and invisible characters are shown."""
    evil = '"><script>alert(1)</script>\u202e'
    asked = ASK.replace('"red"', json.dumps(evil)).replace("Which colour?", evil.replace('"', '\\"'))
    env.cli_env.engine("codex", d.codex(asked), d.codex(asked))
    run_id, _ = env.ask(prompt=evil)
    named = env.create(prompt=evil, model=evil)  # in mode auto, since interactive rejects such a name
    env.failed(named)
    for path in (
        "/",
        "/runs",
        f"/runs/{run_id}",
        f"/runs/{named}",
        f"/?sent={evil}",
        f"/runs?engine={evil}&state={evil}",
    ):
        page = surfer.open(path)
        assert page.status_code == 200
        assert "<script>alert" not in page.text
        assert "\u202e" not in page.text
    assert r"\u202e" in surfer.open("/").text


def test_a_missing_run_is_said_in_words(surfer: Surfer) -> None:
    """The error page explains the problem in sentences, with the API's status code, and leads to the other pages."""
    answer = surfer.open("/runs/x")
    assert (answer.status_code, answer.mimetype) == (404, "text/html")
    assert "There is no run 'x'. Choose one from the list of runs." in words(answer.text)
    assert all(f'<a href="{path}">' in answer.text for path in PAGES)
    assert surfer.send("/runs/x/reply", interaction_id="1", text="y").status_code == 404


def test_what_fails_is_said_in_words(env: ServerEnv, surfer: Surfer, monkeypatch: pytest.MonkeyPatch) -> None:
    """An internal error shows an explanation instead of a traceback."""
    monkeypatch.setattr(runs, "counts", lambda _: 1 / 0)
    answer = surfer.open("/")
    assert answer.status_code == 500
    assert "The server failed; its log says how. Report it." in words(answer.text)


def test_a_page_that_gets_no_stream_is_refused(env: ServerEnv) -> None:
    """If no stream is free, the request is rejected, and the page's script polls instead."""
    assert Surfer(Caller(env.server, streams=EventStreams(0))).open("/live").status_code == 503
    assert Surfer(Caller(env.server)).client.head("/live").status_code == 200


def test_the_form_names_workspaces(closed_server_env: ServerEnv, tmp_path: Path) -> None:
    """The form says where workspaces are, or that there are none."""
    with closed_server_env.opened(workspace_root=tmp_path) as server:
        assert f"A directory inside {tmp_path}" in Surfer(Caller(server)).text("/new")
    with closed_server_env.opened(workspace_root=None) as server:
        assert "--workspace-root" in Surfer(Caller(server)).text("/new")


_BAD_IDS = (
    "9223372036854775808",
    "-9223372036854775809",
    "99999999999999999999",
    "9" * 5000,
    "-1",
    "x",
    "",
    "1.5",
    "\u0663",
)


def test_a_number_that_is_none_is_refused(env: ServerEnv, surfer: Surfer, subtests: pytest.Subtests) -> None:
    """A number that the database can't hold, or another text, gets a page that names it, before anything is sent."""
    run_id, _ = env.ask()
    for given in _BAD_IDS:
        with subtests.test(given=given[:30]):
            number = quote(given)
            for path in ("/?skip=", "/runs?before=", f"/runs/{run_id}?before=", f"/runs/{run_id}?turn="):
                answer = surfer.open(f"{path}{number}")
                name = path.partition("?")[2].removesuffix("=")
                assert (answer.status_code, f"query.{name}: must" in words(answer.text)) == (422, True)
            answer = surfer.open(f"/live?after={number}")
            assert (answer.status_code, "query.after: must" in words(answer.text)) == (422, True)
            if given.isascii():
                answer = surfer.open("/live", Last_Event_ID=given)
                assert (answer.status_code, "header.Last-Event-ID: must" in words(answer.text)) == (422, True)


def test_the_largest_number_is_one(env: ServerEnv, surfer: Surfer) -> None:
    """The largest id of an event is accepted everywhere."""
    run_id, _ = env.ask()
    for path in ("/?skip=", "/runs?before=", f"/runs/{run_id}?before=", f"/runs/{run_id}?turn="):
        assert surfer.open(f"{path}{2**53 - 1}").status_code == 200


@each("seconds", ["9" * 5000, "9223372036854775808", "\u0663"])
def test_seconds_that_are_no_number_are_refused(env: ServerEnv, surfer: Surfer, seconds: str) -> None:
    """A time of a form that is too long to be a number is refused like any other, and the form is shown again."""
    form = {"engine": "codex", "prompt": "x", "session_timeout_sec": seconds}
    answer = surfer.send("/runs", form=surfer.hidden("/new") | form)
    assert answer.status_code == 422
    assert "session_timeout_sec: must" in words(answer.text)


def test_a_number_for_the_api_that_is_none_is_refused(env: ServerEnv, subtests: pytest.Subtests) -> None:
    """The API answers with a problem document that names the parameter or the header."""
    run_id, _ = env.ask()
    client = Caller(env.server).app.test_client()
    asked: list[tuple[str, dict[str, str]]] = []
    for given in _BAD_IDS:
        number = quote(given)
        asked += [(f"/v1/runs?{name}={number}", {}) for name in ("before", "limit")]
        asked.append((f"/v1/runs/{run_id}/events?last_event_id={number}", {}))
        if given.isascii():
            asked.append((f"/v1/runs/{run_id}/events", {"Last-Event-ID": given}))
    for path, headers in asked:
        with subtests.test(path=path[:80], headers=str(headers)[:40]):
            answer = client.get(path, headers=headers)
            assert (answer.status_code, json.loads(answer.data)["code"]) == (422, "INVALID_REQUEST")
