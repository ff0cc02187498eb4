"use strict";
(() => {
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];
  const form = document.querySelector(".filters");
  const table = document.querySelector(".matrix");
  document.documentElement.classList.add("js");
  if (!table) { form.remove(); return; }

  const heads = new Map(all("th[data-col]").map((head) => [head.dataset.col, head]));
  const rows = all("tr[data-row]");
  const cells = all("a.cell").map((link) => {
    const column = link.closest("td").dataset.col;
    const row = link.closest("tr");
    const head = heads.get(column);
    const clause = row.querySelector("th").dataset.text || "";
    const found = document.getElementById(link.hash.slice(1)).querySelector("[data-detail]");
    const text = [head.dataset.text, clause, found ? found.textContent : ""].join(" ").toLowerCase();
    return { link, row, column, text, engine: head.dataset.engine, state: link.dataset.state };
  });

  const chosen = (name) => new Set(all(`input[name=${name}]:checked`, form).map((input) => input.value));
  function filter() {
    const engines = chosen("engine"), states = chosen("state");
    const words = form.elements.find.value.toLowerCase().split(/\s+/).filter(Boolean);
    const shownColumns = new Set(), shownRows = new Set();
    let matching = 0, clauses = 0;
    for (const cell of cells) {
      cell.on = (!engines.size || engines.has(cell.engine)) && (!cell.state || !states.size || states.has(cell.state))
        && words.every((word) => cell.text.includes(word));
      if (!cell.state) continue;
      clauses += 1;
      if (!cell.on) continue;
      matching += 1;
      shownColumns.add(cell.column);
      shownRows.add(cell.row);
    }
    // a verdict is visible as long as any clause of its release is
    for (const cell of cells) cell.link.classList.toggle("off", cell.state ? !cell.on : !shownColumns.has(cell.column));
    for (const row of rows) row.hidden = row.dataset.row !== "-1" && !shownRows.has(row);
    for (const family of all("tr.family")) {
      family.hidden = all("tr[data-row]", family.parentElement).every((row) => row.hidden);
    }
    for (const part of all("[data-col]")) part.hidden = !shownColumns.has(part.dataset.col);
    columns();
    document.querySelector(".empty").hidden = matching > 0 || !clauses;
    const narrowed = engines.size || states.size || words.length;
    form.querySelector("output").textContent = narrowed ? `${matching} of ${clauses} cells match` : "";
    reachable(current());
  }
  function columns() {
    // a heading spans only the visible columns of its group
    let at = 0;
    const listed = [...heads.values()];
    for (const group of all("th.engine")) {
      group.dataset.all ||= group.colSpan;
      const mine = listed.slice(at, at + Number(group.dataset.all));
      at += Number(group.dataset.all);
      const shown = mine.filter((head) => !head.hidden).length;
      group.hidden = !shown;
      group.colSpan = Math.max(1, shown);
    }
  }

  let last = cells[0];
  const live = () => cells.filter((cell) => !cell.row.hidden && !heads.get(cell.column).hidden);
  const current = () => { const shown = live(); return shown.includes(last) ? last : shown[0]; };
  function reachable(cell) {
    // one tab stop; arrow keys move from there
    if (!cell) return;
    last.link.tabIndex = -1;
    last = cell;
    last.link.tabIndex = 0;
  }
  function step(key) {
    const shown = live();
    const line = shown.filter((cell) => cell.row === last.row);
    const file = shown.filter((cell) => cell.column === last.column);
    const along = key === "ArrowUp" || key === "ArrowDown" ? file : line;
    const by = { ArrowLeft: -1, ArrowUp: -1, ArrowRight: 1, ArrowDown: 1 }[key];
    return key === "Home" ? line[0] : key === "End" ? line.at(-1) : along[along.indexOf(last) + by];
  }
  table.addEventListener("keydown", (event) => {
    if (!event.target.matches("a.cell") || event.altKey || event.ctrlKey || event.metaKey) return;
    if (!/^(Arrow(Left|Right|Up|Down)|Home|End)$/.test(event.key)) return;
    event.preventDefault();
    const next = step(event.key);
    if (next) { reachable(next); next.link.focus(); }
  });
  table.addEventListener("focusin", (event) => reachable(cells.find((cell) => cell.link === event.target)));

  function opened() {
    for (const link of all("a.chosen")) link.classList.remove("chosen");
    const detail = document.querySelector(".detail:target");
    const cell = detail && cells.find((each) => each.link.hash === location.hash);
    if (!cell) return;
    cell.link.classList.add("chosen");
    reachable(cell);
    detail.focus({ preventScroll: true });
  }
  function closed() {
    location.hash = "closed";
    last.link.focus({ preventScroll: true });
  }
  addEventListener("hashchange", opened);
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && document.querySelector(".detail:target")) closed();
  });
  document.addEventListener("click", (event) => {
    const open = document.querySelector(".detail:target");
    const link = event.target.closest("a");
    if (link && link.matches(".close")) { event.preventDefault(); closed(); }
    else if (open && !open.contains(event.target) && !link) closed();
  });

  for (const cell of cells) cell.link.tabIndex = -1;
  form.addEventListener("input", filter);
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("reset", () => setTimeout(filter));
  filter();
  opened();
})();
