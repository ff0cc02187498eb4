"""How people answer on the server's page, in a real Chromium, on a Codex that follows a script."""

import json
from contextlib import closing
from pathlib import Path

import pytest

from tests.browser.axe import violations
from tests.browser.chromium import DESKTOP, PHONE, Browser
from tests.browser.server import PageServer, asking, page_server, scripted_codex
from tests.reference import cli_env as d
from turngate_reference.handle_record import now
from turngate_reference.server.store import runs
from turngate_reference.server.store.database import Store
from turngate_reference.server.store.events import TextEvent, TurnStartEvent, add_event

STATUS = "document.getElementById('status').textContent"
TEXT = "document.querySelector('textarea')"
DONE = json.dumps({"outcome": "final", "final_data": {"colour": "red"}})
QUESTIONS = {
    "risk_ack": asking("risk_ack", "Delete build/?", context={"command": "rm -rf build"}),
    "confirm": asking("confirm", "Shall I paint the frame?"),
    "many": asking("choose_one", "Which?", options=[*map(str, range(9))]),
    "fill_fields": asking("fill_fields", "Who?", required_fields=["name"]),
    "open_text": asking("open_text", "What should the note say?"),
}


def ask(server: PageServer, folder: Path, *turns: str) -> str:
    """Create a run whose agent says this in its turns, and wait until it waits; return its id."""
    (folder / "path" / "codex.calls").unlink(missing_ok=True)
    scripted_codex(folder, *(d.codex(text) for text in turns))
    run_id = server.create(engine="codex", prompt="Paint the door.", execution_mode="interactive")
    server.follow(run_id, "waiting_user")
    return run_id


@pytest.mark.parametrize("size", [DESKTOP, PHONE])
@pytest.mark.parametrize("kind", QUESTIONS)
def test_each_kind_of_question_has_its_form(tab: Browser, tmp_path: Path, kind: str, size: tuple[int, int]) -> None:
    """A risk takes two steps, a confirmation is yes or no, and so on; each can be sent, and is accessible."""
    with page_server(tmp_path / "data", scripted_codex(tmp_path), "--no-token") as server:
        run_id = ask(server, tmp_path, QUESTIONS[kind], DONE)
        tab.open(f"{server.url}/runs/{run_id}", size)
        assert violations(tab) == []
        assert tab.ask("document.documentElement.scrollWidth") == size[0]
        match kind:
            case "risk_ack":
                assert "rm -rf build" in tab.ask("document.querySelector('.risk').innerText")
                assert tab.ask("document.querySelectorAll('.step[open], .step button.main').length") == 0
                tab.click(".step > summary")
                tab.follow(".step[open] button")
                answer = "I accept the risk"
            case "confirm":
                assert tab.ask("document.querySelector('.options').innerText").split() == ["yes", "no"]
                tab.follow(".options button:nth-of-type(2)")
                answer = "no"
            case "many":
                tab.click(".list .choice:nth-of-type(8) input")
                tab.follow(".list button")
                answer = "7"
            case "fill_fields":
                assert tab.ask("document.querySelector('.fields label').innerText") == "name"
                tab.click(".fields input:not([type=hidden])")
                tab.type("Ada")
                tab.follow(".fields button")
                answer = "name: Ada"
            case _:
                tab.click("textarea")
                tab.type("Wet paint")
                tab.follow(".free button.main")
                answer = "Wet paint"
        server.follow(run_id, "succeeded")
        tab.open(f"{server.url}/runs/{run_id}", size)
        assert tab.ask("document.querySelector('.said.you .plain').innerText") == answer
        assert violations(tab) == []
        assert tab.complaints() == []


def test_a_run_is_canceled_at_the_top(tab: Browser, tmp_path: Path) -> None:
    """Cancel stands beside the state, asks once more, and the page then speaks of no error."""
    with page_server(tmp_path / "data", scripted_codex(tmp_path, [["hang"]]), "--no-token") as server:
        run_id = server.create(engine="codex", prompt="Paint the door.")
        server.follow(run_id, "running")
        tab.open(f"{server.url}/runs/{run_id}", PHONE)
        place = "document.querySelector('.cancel summary').getBoundingClientRect().bottom"
        assert tab.ask(place) < tab.ask("document.querySelector('h1').getBoundingClientRect().top")
        tab.click(".cancel summary")
        tab.follow(".cancel button")
        server.follow(run_id, "canceled")
        tab.until("document.querySelector('.strip .state').innerText === 'canceled'")
        tab.until("document.querySelector('.turn summary').textContent.includes('canceled')")
        said = tab.ask("document.querySelector('main').textContent").partition("Events")[0]
        assert not any(word in said for word in ("error", "failed", "exit code"))


def test_a_draft_survives_a_reload_and_a_closed_question_names_the_answer(tab: Browser, tmp_path: Path) -> None:
    """What was typed is there after a reload; when another tab answers, it stays beside the answer that won."""
    with page_server(tmp_path / "data", scripted_codex(tmp_path), "--no-token") as server:
        run_id = ask(server, tmp_path, QUESTIONS["open_text"], QUESTIONS["open_text"])
        tab.open(server.url)
        tab.click("textarea")
        tab.type("Careful, it is")
        tab.open(server.url)
        assert tab.ask(f"{TEXT}.value") == "Careful, it is"
        tab.until(f"{STATUS} === 'Live'")
        question = server.call(f"/v1/runs/{run_id}/interaction")["pending"]["interaction_id"]
        reply = {"interaction_id": question, "response": "Wet paint"}
        server.call(f"/v1/runs/{run_id}/interaction/reply", reply)
        tab.until("document.querySelector('article.closed [role=alert]')?.textContent.endsWith('taken: Wet paint')")
        assert tab.ask("document.querySelector('article.closed textarea').value") == "Careful, it is"
        server.follow(run_id, "waiting_user")
        tab.open(f"{server.url}/runs/{run_id}")
        tab.until(f"{TEXT}?.value === ''")  # the second question may come after the page
        assert tab.ask("Object.keys(sessionStorage).length") == 0


def test_the_inbox_needs_no_mouse(tab: Browser, tmp_path: Path) -> None:
    """Keys go from question to question and to an option, and send a text; the next question then has the focus."""
    with page_server(tmp_path / "data", scripted_codex(tmp_path), "--no-token") as server:
        first = ask(server, tmp_path, QUESTIONS["open_text"], DONE)
        second = ask(server, tmp_path, QUESTIONS["confirm"], DONE)
        tab.open(server.url)
        assert first[-8:] in tab.ask("document.querySelector('.longest').innerText")
        tab.ask("document.querySelector('article.card').focus()")
        tab.press("j")
        assert second[-8:] in tab.ask("document.activeElement.innerText")
        tab.press("2")
        assert tab.ask("document.activeElement.innerText") == "no"
        tab.press("k")
        assert first[-8:] in tab.ask("document.activeElement.innerText")
        tab.ask(f"{TEXT}.focus()")
        tab.type("j2")
        assert tab.ask(f"{TEXT}.value") == "j2"
        (tmp_path / "path" / "codex.calls").write_text("{}\n")
        tab.enter(control=True)
        server.follow(first, "succeeded")
        assert second[-8:] in tab.ask("document.activeElement.innerText")


def test_a_hidden_page_notifies(tab: Browser, tmp_path: Path) -> None:
    """If it is allowed, a notification says once that an agent asks, as long as nobody looks at the page."""
    with page_server(tmp_path / "data", scripted_codex(tmp_path), "--no-token") as server:
        tab.send("Browser.grantPermissions", origin=server.url, permissions=["notifications"])
        tab.open(server.url)
        tab.click("#notify")
        tab.until("document.getElementById('notify').getAttribute('aria-pressed') === 'true'")
        assert tab.ask("document.getElementById('notify').textContent") == "Notifications are on"
        # a headless browser shows neither notifications nor hidden pages
        tab.ask(
            "window.told = []; window.Notification = class extends EventTarget {"
            "static permission = 'granted'; constructor(...words) { super(); told.push(words); } };"
            "Object.defineProperty(document, 'visibilityState', {value: 'hidden', configurable: true});"
            "document.getElementById('status').textContent = '';"
            "document.dispatchEvent(new Event('visibilitychange'))"
        )
        tab.until(f"{STATUS} === 'Live'")
        ask(server, tmp_path, QUESTIONS["confirm"])
        tab.until("told.length === 1")
        assert tab.ask("[told[0][0], told[0][1].body]") == ["codex 0.169.0 is waiting for you", "Paint the door."]
        ask(server, tmp_path, QUESTIONS["confirm"])
        tab.until("told.length === 2")


@pytest.mark.parametrize("size", [DESKTOP, PHONE])
def test_changed_files_are_looked_at(tab: Browser, tmp_path: Path, size: tuple[int, int]) -> None:
    """The page lists them, shows patches and texts, and what looks like a page is downloaded, not opened."""
    workspace = tmp_path / "house"
    workspace.mkdir()
    (workspace / "door.txt").write_text("blue\n")
    options = ("--no-token", "--workspace-root", str(tmp_path))
    with page_server(tmp_path / "data", scripted_codex(tmp_path), *options) as server:
        files = [
            ["write", "door.txt", "red\n"],
            ["write", "evil.html", "<script>document.title = 'evil'</script>"],
            ["write", "paint.py", "return 'red'  # <b>\n"],
        ]
        env = scripted_codex(tmp_path, d.codex(DONE, more=files))
        assert env
        body = {"prompt": "Paint the door.", "execution_mode": "interactive", "workspace": "house"}
        run_id = server.create(engine="codex", **body)
        server.follow(run_id, "succeeded")
        tab.open(f"{server.url}/runs/{run_id}", size)
        assert tab.ask("document.querySelectorAll('.files li').length") == 3
        assert violations(tab) == []
        tab.follow(".files li > a")
        assert tab.ask("document.querySelector('h1').innerText") == "door.txt"
        assert tab.ask("document.querySelector('.file').innerText") == "@@ -1 +1 @@\n-blue\n+red\n"
        assert violations(tab) == []
        assert tab.ask("document.documentElement.scrollWidth") == size[0]
        tab.open(f"{server.url}/runs/{run_id}", size)
        tab.follow(".files li:last-child > a")
        assert tab.ask("document.querySelector('.file').innerText") == "return 'red'  # <b>\n"
        assert violations(tab) == []
        tab.open(f"{server.url}/runs/{run_id}", size)
        tab.send("Browser.setDownloadBehavior", behavior="deny")
        tab.click(".files li:nth-child(2) .size a")
        tab.until("document.title.startsWith('Paint')")
        assert tab.ask("location.pathname") == f"/runs/{run_id}"


def test_a_failed_run_is_continued_and_tried_again(tab: Browser, tmp_path: Path) -> None:
    """The page says why it failed and what the agent said last, and both buttons work."""
    with page_server(tmp_path / "data", scripted_codex(tmp_path), "--no-token") as server:
        scripted_codex(tmp_path, d.codex("All painted!"), d.codex(QUESTIONS["confirm"]))
        sessions = tmp_path / "home" / ".codex" / "sessions" / "2026" / "01" / "01"
        sessions.mkdir(parents=True)
        (sessions / f"rollout-2026-01-01T00-00-00-{d.SESSION}.jsonl").touch()
        run_id = server.create(engine="codex", prompt="Paint the door.", execution_mode="interactive")
        server.follow(run_id, "failed")
        tab.open(f"{server.url}/runs/{run_id}", PHONE)
        said = tab.ask("document.querySelector('#talk').innerText")
        assert said.index("All painted!") < said.index("The run failed.") < said.index("ENVELOPE_INVALID")
        assert violations(tab) == []
        tab.click(".next textarea")
        tab.type("Ask me first.")
        tab.follow(".next button.main")
        tab.until("document.querySelector('.options.confirm')")
        assert tab.ask("document.querySelector('.said.you .plain').innerText") == "Ask me first."
        scripted_codex(tmp_path, d.codex("All painted!"))
        other = server.create(engine="codex", prompt="Paint it all.", execution_mode="interactive")
        server.follow(other, "failed")
        tab.open(f"{server.url}/runs/{other}", PHONE)
        tab.follow(".again button")
        assert tab.ask("location.pathname") not in (f"/runs/{other}", f"/runs/{run_id}")
        assert tab.ask("document.querySelector('h1').innerText") == "Paint it all."


def test_a_run_with_200_turns_loads_in_pages(tab: Browser, tmp_path: Path) -> None:
    """The latest turns come with the open question, and links lead to the others."""
    with page_server(tmp_path / "data", scripted_codex(tmp_path), "--no-token") as server:
        run_id = ask(server, tmp_path, QUESTIONS["confirm"])
        server.kill()
        with closing(Store(tmp_path / "data" / "turngate.db")) as store, store.writing() as connection:
            for turn in range(2, 201):
                sql = "INSERT INTO turns (run_id, turn_index, started_at, ended_at) VALUES (?, ?, ?, ?)"
                connection.execute(sql, (run_id, turn, now(), now()))
                add_event(connection, run_id, TurnStartEvent(turn))
                add_event(connection, run_id, TextEvent(turn, f"This is text {turn}."))
            runs.change(connection, run_id, turn_index=200)
        server.start()
        marks = "[...document.querySelectorAll('.turn-mark')].map(e => e.innerText)"
        tab.open(f"{server.url}/runs/{run_id}")
        assert tab.ask(marks) == [f"Turn {number}" for number in range(176, 201)]
        assert "Shall I paint the frame?" in tab.ask("document.querySelector('#talk').innerText")
        tab.follow(".older a")
        assert tab.ask(marks) == [f"Turn {number}" for number in range(151, 176)]
        said = tab.ask("document.querySelector('#talk').innerText")
        assert "This is text 151." in said
        assert "Shall I paint" not in said
        tab.until(f"{STATUS} === 'Live'")
        tab.follow(".older a[href$='turn=200']")
        assert tab.ask(marks)[-1] == "Turn 200"
