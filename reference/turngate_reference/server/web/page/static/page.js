"use strict";
// Keeps an open page up to date: the server says when something changed, and the page is read again.
(() => {
  const POLL = 5000, status = document.getElementById("status");
  const address = document.body.dataset.live;
  const isSent = new URLSearchParams(location.search).has("sent");
  let stream = null, unlock = null, told = new Set(), poll = 0, reading = false, again = false;

  function tell(text) {
    if (status && status.textContent !== text) status.textContent = text;
  }

  // What was typed, or has the focus, must not disappear under the reader's hands.
  function isInUse(part) {
    return part.contains(document.activeElement) && document.activeElement.matches("input, textarea, button, select")
      || [...part.querySelectorAll("textarea, input:not([type=hidden]):not([type=radio])")].some(field => field.value.trim());
  }

  // The page of a run shows which answer to a question was taken.
  async function tellAnswer(part, note) {
    const run = part.querySelector("form")?.action.match(/\/runs\/[^/]+/);
    if (!run) return;
    const page = await fetch(run[0], {credentials: "same-origin", redirect: "error"});
    const next = new DOMParser().parseFromString(await page.text(), "text/html");
    const answer = next.querySelector(`[data-answers="${CSS.escape(part.id.replace("question-", ""))}"]`);
    if (answer) note.textContent = `This question is closed. The answer that was taken: ${answer.textContent}`;
  }

  function close(part) {
    if (part.classList.contains("closed")) return;
    part.classList.add("closed");
    for (const button of part.querySelectorAll("button")) button.disabled = true;
    const note = document.createElement("p");
    note.className = "problem";
    note.setAttribute("role", "alert");
    note.textContent = "This question is closed: it was answered elsewhere, or the run has ended.";
    part.prepend(note);
    tellAnswer(part, note).catch(() => {});
  }

  // Parts are known by their id. Those whose version is the same stay as they are. Returns what is said of new ones.
  function update(list, next) {
    const old = new Map([...list.children].map(part => [part.id, part]));
    const news = [];
    let place = null;
    for (const part of [...next.children]) {
      const known = old.get(part.id);
      old.delete(part.id);
      const isSame = known && known.dataset.version === part.dataset.version && !known.classList.contains("closed");
      const kept = isSame ? known : document.adoptNode(part);
      if (known && !isSame) {
        if (known.matches("details")) kept.open = known.open;
        known.replaceWith(kept);
      }
      else if (!known) {
        place ? place.after(kept) : list.prepend(kept);
        if (kept.dataset.news) news.push(kept.dataset.news);
      }
      place = kept;
    }
    for (const part of old.values()) part.matches("article") && isInUse(part) ? close(part) : part.remove();
    return news;
  }

  // A screen reader says each new line, even if it is the same as before.
  function say(lines) {
    const said = lines.map(line => Object.assign(document.createElement("p"), {textContent: line}));
    if (said.length) document.getElementById("news")?.replaceChildren(...said);
  }

  // The first open question gets the focus, unless something else has it.
  function goToQuestion() {
    const question = document.querySelector("article[tabindex]:not(.closed)");
    if (!question || document.activeElement !== document.body) return;
    question.focus({preventScroll: true});
    question.scrollIntoView({block: "nearest"});
  }

  function show(next) {
    document.title = next.title;
    const news = [];
    for (const list of document.querySelectorAll("[data-list]")) {
      const fresh = next.getElementById(list.id);
      if (fresh) news.push(...update(list, fresh));
    }
    say(news);
    for (const id of ["headline", "waiting"]) {
      const here = document.getElementById(id), there = next.getElementById(id);
      if (here && there && here.dataset.version !== there.dataset.version) here.replaceWith(document.adoptNode(there));
    }
    restoreDrafts();
    localTimes();
    if (isSent) goToQuestion();
  }

  async function read() {
    if (reading) { again = true; return; }
    reading = true;
    try {
      const answer = await fetch(location.href, {credentials: "same-origin", redirect: "error"});
      if (answer.status === 401) return location.reload();
      if (answer.ok) show(new DOMParser().parseFromString(await answer.text(), "text/html"));
    } catch { tell("Not connected"); } finally {
      reading = false;
      if (again) { again = false; read(); }
    }
  }

  // Browsers open few connections to one server, so only a page that is seen holds one, and one hidden page for notices.
  function follow() {
    clearTimeout(poll);
    if (stream) stream.close();
    if (unlock) unlock();
    stream = unlock = null;
    if (!address) return;
    if (document.visibilityState !== "hidden") return listen(address, read);
    if (!wantsNotices() || !navigator.locks) return;
    navigator.locks.request("turngate-notices", {ifAvailable: true}, async lock => {
      if (!lock || document.visibilityState !== "hidden") return;
      const released = new Promise(resolve => { unlock = resolve; });
      told = new Set((await questions()).map(question => question.id));
      listen(address.replace(/&?run=[^&]*/, ""), announce);
      await released;
    });
  }

  function listen(place, onNews) {
    stream = new EventSource(place);
    stream.addEventListener("open", () => { tell("Live"); onNews(); });
    stream.addEventListener("news", onNews);
    stream.addEventListener("error", () => {
      tell("Connecting…");
      // a server without a free stream refuses for good
      if (stream && stream.readyState === EventSource.CLOSED) poll = setTimeout(() => { onNews(); follow(); }, POLL);
    });
  }

  function wantsNotices() {
    return "Notification" in window && Notification.permission === "granted" && localStorage.getItem("notices") === "on";
  }

  async function questions() {
    const answer = await fetch(document.body.dataset.inbox, {credentials: "same-origin", redirect: "error"});
    const inbox = new DOMParser().parseFromString(await answer.text(), "text/html");
    return [...inbox.querySelectorAll("article.card")];
  }

  async function announce() {
    for (const question of await questions()) {
      if (told.has(question.id)) continue;
      told.add(question.id);
      const [run, engine] = question.querySelectorAll(".meta a, .meta span");
      const notice = new Notification(`${engine.textContent} is waiting for you`, {body: question.querySelector(".task").lastChild.textContent, tag: question.id});
      notice.addEventListener("click", () => { window.focus(); location.href = run.getAttribute("href"); });
    }
  }

  function showNotify() {
    const button = document.getElementById("notify");
    if (!button || !address || !("Notification" in window) || Notification.permission === "denied") return;
    const on = wantsNotices();
    button.hidden = false;
    button.setAttribute("aria-pressed", String(on));
    button.textContent = on ? "Notifications are on" : "Notify me";
  }

  document.getElementById("notify")?.addEventListener("click", async () => {
    const on = !wantsNotices() && await Notification.requestPermission() === "granted";
    localStorage.setItem("notices", on ? "on" : "off");
    showNotify();
  });

  // What is typed into an answer is kept for this tab, until the question is closed.
  function draft(field) {
    const question = field.name && field.form?.elements.interaction_id;
    return question && field.matches("textarea, input:not([type])") ? `draft ${question.value} ${field.name}` : null;
  }

  document.addEventListener("input", event => {
    const key = draft(event.target);
    if (key) sessionStorage.setItem(key, event.target.value);
  });

  function restoreDrafts() {
    for (const field of document.querySelectorAll("article textarea, article input")) {
      const kept = draft(field) && sessionStorage.getItem(draft(field));
      if (kept && !field.value) field.value = kept;
    }
    for (const answer of document.querySelectorAll("[data-answers]")) {
      for (const key of Object.keys(sessionStorage)) if (key.startsWith(`draft ${answer.dataset.answers} `)) sessionStorage.removeItem(key);
    }
  }

  // Keys act only inside a question, and never in a text.
  document.addEventListener("keydown", event => {
    const card = event.target.closest?.("article.card");
    if (!card || event.altKey) return;
    if (event.ctrlKey || event.metaKey) {
      if (event.key === "Enter" && event.target.form) event.target.form.requestSubmit();
      return;
    }
    if (event.target.matches("textarea, select, input:not([type=radio])")) return;
    const cards = [...document.querySelectorAll("article.card")], at = cards.indexOf(card);
    const to = event.key === "j" ? cards[at + 1] : event.key === "k" ? cards[at - 1] : null;
    const option = /^[1-9]$/.test(event.key) && card.querySelectorAll(".options button, .choice input, .step > summary")[event.key - 1];
    (option || to)?.focus();
    if (option && option.type === "radio") option.checked = true;
  });

  function localTimes() {
    const relative = new Intl.RelativeTimeFormat("en", {numeric: "auto"});
    const absolute = new Intl.DateTimeFormat("en", {dateStyle: "medium", timeStyle: "short"});
    for (const time of document.querySelectorAll("time[datetime]")) {
      const at = new Date(time.dateTime), seconds = (at - Date.now()) / 1000;
      const [size, unit] = [[86400, "day"], [3600, "hour"], [60, "minute"]].find(([size]) => Math.abs(seconds) >= size) || [60, "minute"];
      const text = relative.format(Math.round(seconds / size), unit).replace("this minute", "just now");
      if (time.textContent !== text) time.textContent = text;
      time.title = absolute.format(at);
    }
  }

  document.addEventListener("visibilitychange", follow);
  addEventListener("pagehide", () => stream && stream.close());
  addEventListener("pageshow", event => event.persisted && follow());
  localTimes();
  restoreDrafts();
  showNotify();
  if (isSent || location.search === "" && document.querySelector(".open-question")) goToQuestion();
  setInterval(localTimes, 30000);
  follow();
})();
