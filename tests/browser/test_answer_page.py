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
NEWS = "document.getElementById('news').innerText"
FOCUSED = "document.activeElement.id.startsWith('question-') && document.activeElement.innerText"
IN_VIEW = "(box => box.top >= 0 && box.bottom <= innerHeight)(document.activeElement.getBoundingClientRect())"
DONE = json.dumps({"outcome": "final", "final_data": {"colour": "red"}})
LONG = "Paint the front door in the colour of the neighbours' fence, and the frame in white, but ask before you begin. "
MARKDOWN = """Is **this** right?

```python
colour = "<b>"
```

| door | first coat | second coat | number of hours | temperature |
|---|---|---|---|---|
| Kitchen | Undercoat | Harbour | Twenty-four | Eighteen |

- `red` <img src=x onerror="window.hacked = 1"> [a](javascript:window.hacked=1) ![b](http://evil.example/x.png)"""
QUESTIONS = {
    "risk_ack": asking(
        "risk_ack", "Delete build/?", context={"command": "rm -rf build", "places": [{"path": f"/{'build_' * 12}"}]}
    ),
    "confirm": asking("confirm", "Shall I paint the frame?"),
    "many": asking("choose_one", "Which?", options=[*map(str, range(9))]),
    "fill_fields": asking("fill_fields", "Who?", required_fields=["name"]),
    "open_text": asking("open_text", "What should the *note* say?"),
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
        assert said.index("All painted!") < said.index("The run failed:") < said.index("ENVELOPE_INVALID")
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


@pytest.mark.parametrize("place", ["/", "/runs/{}"])
def test_a_question_is_shown_as_markdown(tab: Browser, tmp_path: Path, place: str) -> None:
    """Emphasis, code and lists are shown as such, open and closed, and nothing that the agent wrote does anything.

    On a phone a wide table scrolls, and the page doesn't.
    """
    with page_server(tmp_path / "data", scripted_codex(tmp_path), "--no-token") as server:
        run_id = ask(server, tmp_path, asking("confirm", MARKDOWN), DONE)
        tab.open(server.url + place.format(run_id), PHONE)
        for question in (".ask", ".ask-closed"):
            assert tab.ask("document.documentElement.scrollWidth") == PHONE[0]
            assert tab.ask(f"(box => box.scrollWidth > box.clientWidth)(document.querySelector('{question} .scroll'))")
            shown = [f"{question} {part}" for part in ("strong", "pre code", "li code")]
            assert [tab.ask(f"document.querySelector('{part}').innerText.trim()") for part in shown] == [
                "this",
                'colour = "<b>"',
                "red",
            ]
            links = f"[...document.querySelectorAll('{question} a')].map(link => link.href)"
            assert tab.ask(links) == ["http://evil.example/x.png"]
            assert tab.ask("window.hacked === undefined && document.querySelectorAll('main img').length === 0")
            assert violations(tab) == []
            assert tab.complaints() == []
            assert all(url.startswith(server.url) for url in tab.requested())
            if question == ".ask":
                tab.follow(".options button")
                server.follow(run_id, "succeeded")
                tab.open(f"{server.url}/runs/{run_id}", PHONE)


@pytest.mark.parametrize("script", [True, False])
def test_a_waiting_run_opens_at_its_question(
    tab: Browser,
    tmp_path: Path,
    script: bool,  # noqa: FBT001
) -> None:
    """Below a long task, the list of runs leads to the question, which has the focus; titles are cut after a word."""
    with page_server(
        tmp_path / "data", scripted_codex(tmp_path, d.codex(QUESTIONS["confirm"])), "--no-token"
    ) as server:
        run_id = server.create(engine="codex", prompt=LONG + "\n\n" + 40 * LONG, execution_mode="interactive")
        server.follow(run_id, "waiting_user")
        tab.open(f"{server.url}/runs", PHONE, script=script)
        tab.follow(".runs th a")
        assert tab.ask("document.title") == f"{LONG[:77]} … · waiting for you · turngate"
        assert tab.ask("document.querySelector('article .options').getBoundingClientRect().top < innerHeight")
        if script:
            tab.open(f"{server.url}/runs/{run_id}", PHONE)
            tab.until(f"{FOCUSED} && {IN_VIEW}")
            tab.press("Tab")
            assert tab.ask("document.activeElement.innerText") == "yes"


@pytest.mark.parametrize("place", ["/", "/runs/{}"])
def test_a_new_question_is_announced(tab: Browser, tmp_path: Path, place: str) -> None:
    """A live region says the next question, and each that follows, even if it is the same; the focus stays."""
    with page_server(tmp_path / "data", scripted_codex(tmp_path), "--no-token") as server:
        run_id = ask(server, tmp_path, QUESTIONS["confirm"], *[QUESTIONS["open_text"]] * 2)
        tab.open(server.url + place.format(run_id))
        tab.until(f"{STATUS} === 'Live'")
        assert tab.ask(f"document.getElementById('news').role + {NEWS}") == "status"
        tab.ask("document.querySelector('nav a').focus(); window.said = 0")
        tab.ask(
            "new MutationObserver(() => { said += 1; }).observe(document.getElementById('news'), {childList: true})"
        )
        for number in (1, 2):
            question = server.call(f"/v1/runs/{run_id}/interaction")["pending"]["interaction_id"]
            reply = {"interaction_id": question, "response": "yes"}
            server.call(f"/v1/runs/{run_id}/interaction/reply", reply)
            tab.until(f"said === {number} && {NEWS}.trim() === 'codex asks: What should the note say?'")
        assert tab.ask("document.activeElement.matches('nav a')")
        assert violations(tab) == []


@pytest.mark.parametrize("place", ["/", "/runs/{}"])
def test_after_a_reply_the_next_question_has_the_focus(tab: Browser, tmp_path: Path, place: str) -> None:
    """It gets it as soon as it comes, so that a keyboard alone answers one question after the other."""
    with page_server(tmp_path / "data", scripted_codex(tmp_path), "--no-token") as server:
        run_id = ask(server, tmp_path, *[QUESTIONS["confirm"]] * 2, QUESTIONS["open_text"], DONE)
        tab.open(server.url + place.format(run_id))
        for _ in range(2):
            tab.ask("document.querySelector('.options button').focus()")
            asked = tab.ask("document.querySelector('article[tabindex]').id")
            tab.enter()
            tab.until(f"{FOCUSED} && document.activeElement.id !== '{asked}'")
        assert "What should the note say?" in tab.ask(FOCUSED)


def test_after_each_end_one_more_thing_can_be_said(tab: Browser, tmp_path: Path) -> None:
    """A run that succeeded goes on, is canceled, and goes on again, in one session."""
    with page_server(tmp_path / "data", scripted_codex(tmp_path), "--no-token") as server:
        run_id = ask(server, tmp_path, QUESTIONS["confirm"], DONE, QUESTIONS["confirm"], DONE)
        tab.open(f"{server.url}/runs/{run_id}")
        tab.follow(".options button")
        for end, said in (("succeeded", "Now the frame."), ("canceled", "Go on after all.")):
            server.follow(run_id, end)
            tab.open(f"{server.url}/runs/{run_id}", PHONE)
            assert violations(tab) == []
            tab.click(".next textarea")
            tab.type(said)
            tab.follow(".next button.main")
            if end == "succeeded":
                tab.until("document.querySelector('.options.confirm')")
                server.call(f"/v1/runs/{run_id}/cancel", {})
        tab.until("document.querySelector('#result')")
        said = tab.ask("document.querySelector('#talk').innerText")
        assert said.index("Now the frame.") < said.index("Go on after all.") < said.rindex("Result")
        asked = tab.ask("[...document.querySelectorAll('.said.question .by')].map(e => e.innerText.split(' ')[0])")
        assert asked == ["codex", "turngate", "codex", "turngate"]


def test_a_later_turn_that_failed_is_sent_once_more(tab: Browser, tmp_path: Path) -> None:
    """The page says what the engine said, no more than that, and its one button sends the last message again."""
    with page_server(tmp_path / "data", scripted_codex(tmp_path), "--no-token") as server:
        failing: d.Play = [["stderr", "Error: the model is overloaded\n"], ["exit", 1]]
        scripted_codex(tmp_path, d.codex(QUESTIONS["confirm"]), failing, d.codex(DONE))
        sessions = tmp_path / "home" / ".codex" / "sessions" / "2026" / "01" / "01"
        sessions.mkdir(parents=True)
        (sessions / f"rollout-2026-01-01T00-00-00-{d.SESSION}.jsonl").touch()
        run_id = server.create(engine="codex", prompt="Paint the door.", execution_mode="interactive")
        server.follow(run_id, "waiting_user")
        tab.open(f"{server.url}/runs/{run_id}", PHONE)
        tab.follow(".options button")
        server.follow(run_id, "failed")
        tab.open(f"{server.url}/runs/{run_id}", PHONE)
        said = tab.ask("document.querySelector('#failure').innerText")
        assert said.startswith("Turn 2 failed: the engine exited with 1; stderr: Error: the model is overloaded")
        assert "The session is intact" in said
        assert "doesn't exist" not in said
        assert tab.ask("[...document.querySelectorAll('.next button')].map(e => e.innerText)") == ["Continue"]
        assert violations(tab) == []
        tab.follow(".next button")
        tab.until("document.querySelector('#result')")
        assert tab.ask("[...document.querySelectorAll('.said.you .plain')].map(e => e.innerText)") == ["yes", "yes"]
