// The live page: asks the server for what is new, and shows it. Texts of a run are hostile: textContent alone.

import {Figure, element} from "/figure.js";

const EVERY = 2000;
const MOST_TEXT = 20000;
const get = id => document.getElementById(id);
const figures = new Map();
let chosen = 0, known = -1, together = -1, timer = 0;

async function ask(path) {
  const answer = await fetch(path, {cache: "no-store"});
  if (!answer.ok) throw new Error(`the server says ${answer.status}`);
  return answer.json();
}

async function refresh() {
  clearTimeout(timer);
  try {
    const runs = await ask("/api/runs");
    showRuns(runs);
    const asked = chosen, run = await ask(`/api/run?run=${asked}&version=${known}`);
    if (asked === chosen) show(run);
    const versions = runs.reduce((sum, one) => sum + one.version, 0);
    if (runs.length > 1 && versions !== together) {
      together = versions;
      const {charts, columns, rows} = await ask("/api/side-by-side");
      get("together").hidden = !rows.length;
      compare(columns, rows);
      place(get("together").querySelector(".charts"), charts);
    }
  } catch (error) {
    get("live").className = "lost";
    get("live").textContent = "the server of this page has ended";
  }
  timer = setTimeout(refresh, document.hidden ? 5 * EVERY : EVERY);
}

function showRuns(runs) {
  const tabs = get("runs");
  if (runs.length < 2) return;
  while (tabs.children.length < runs.length) {
    const number = tabs.children.length, tab = element("button", {role: "tab", class: `s${number % 7}`});
    tab.append(element("span"));
    tab.addEventListener("click", () => { chosen = number; known = -1; refresh(); });
    tabs.append(tab);
  }
  runs.forEach((run, i) => {
    tabs.children[i].firstChild.textContent = run.name;
    tabs.children[i].setAttribute("aria-selected", i === chosen);
  });
}

function compare(columns, rows) {
  const table = get("together").querySelector("table"), head = element("tr");
  head.append(...columns.map(name => element("th", {}, name)));
  table.replaceChildren(head, ...rows.map(cells => {
    const row = element("tr");
    row.append(...cells.map(cell => element("td", {}, visible(cell))));
    return row;
  }));
}

function show(run) {
  const live = get("live");
  live.className = run.error ? "lost" : "fresh";
  live.textContent = run.error || (run.left ? `reading, ${Math.ceil(run.left / 1e6)} MB left` : "live");
  get("name").textContent = run.name;
  document.title = `${run.name} · curro`;
  if (run.waiting) {
    get("method").textContent = "The run has not finished a step yet.";
    return;
  }
  if (!run.sections) return;
  known = run.version;
  get("method").textContent = [run.method, run.steps ? `step ${run.step} of ${run.steps}` : `step ${run.step}`].filter(Boolean).join(" · ");
  get("verdict").hidden = false;
  get("verdict").className = run.verdict.word;
  get("verdict").textContent = run.verdict.sentence;
  get("headlines").replaceChildren(...run.headlines.map(headline));
  get("advice").replaceChildren(...run.advice.map(one => {
    const card = element("div", {class: "advice", "data-rule": one.name});
    card.append(element("p", {}, one.problem), element("p", {}, one.advice));
    return card;
  }));
  showSections(run.sections);
  showRankings(run);
}

function headline({value, name, remark}) {
  const box = element("div"), term = element("dt", {}, name);
  if (remark) term.append(" ", element("span", {class: "soft"}, remark));
  box.append(term, element("dd", {}, value));
  return box;
}

function showSections(sections) {
  const parent = get("sections");
  sections.forEach(({title, charts}, i) => {
    let section = [...parent.children].find(one => one.dataset.title === title);
    if (!section) {
      section = element("section", {"data-title": title});
      section.append(element("h2", {}, title), element("div", {class: i ? "charts" : "charts large"}));
    }
    if (parent.children[i] !== section) parent.insertBefore(section, parent.children[i] ?? null);
    place(section.lastChild, charts);
  });
  while (parent.children.length > sections.length) parent.lastChild.remove();
}

function place(parent, charts) {
  const nodes = charts.map(chart => {
    if (!figures.has(chart.name)) figures.set(chart.name, new Figure());
    return figures.get(chart.name).node;
  });
  nodes.forEach((node, i) => { if (parent.children[i] !== node) parent.insertBefore(node, parent.children[i] ?? null); });
  while (parent.children.length > nodes.length) parent.lastChild.remove();
  charts.forEach(chart => figures.get(chart.name).show(chart));
}

function showRankings({rankings, kept}) {
  get("prompts").hidden = false;
  get("kept").textContent = kept ? "Click a prompt to read its rollouts." : "Rollouts were not kept (curro train --keep-rollouts).";
  get("rankings").replaceChildren(...rankings.map(({title, rule, prompts}) => {
    const card = element("div", {class: "card"}), scroll = element("div", {class: "scroll"}), table = element("table");
    card.append(element("h3", {}, title), element("p", {class: "soft"}, rule), scroll);
    if (!prompts.length) scroll.append(element("p", {class: "soft"}, "none"));
    else scroll.append(table);
    const head = table.createTHead().insertRow();
    for (const name of ["prompt", "row", "visits", "now", "best", "at step"]) head.append(element("th", {}, name));
    const body = table.createTBody();
    for (const prompt of prompts) {
      const row = body.insertRow(), open = element("button", {"data-prompt": prompt.number});
      open.append(element("bdi", {}, visible(prompt.text)));
      open.title = `key ${visible(prompt.key)}`;
      open.addEventListener("click", () => openPrompt(prompt.number));
      row.insertCell().append(open);
      for (const text of [prompt.number, prompt.visits, prompt.rate.toFixed(2), prompt.best.toFixed(2), prompt.last_step])
        row.insertCell().textContent = text;
    }
    return card;
  }));
}

async function openPrompt(number) {
  const content = get("prompt-content");
  content.replaceChildren(element("p", {}, "…"));
  if (!get("prompt").open) get("prompt").showModal();
  try {
    showPrompt(content, await ask(`/api/prompt?run=${chosen}&prompt=${number}`));
  } catch {
    content.replaceChildren(element("h2", {id: "prompt-key"}, `Prompt ${number}`), element("p", {}, "It was not drawn yet."));
  }
}

function showPrompt(content, prompt) {
  const title = element("h2", {id: "prompt-key"});
  title.append(element("bdi", {}, visible(prompt.title)));
  const facts = [`row ${prompt.number}`, prompt.title === prompt.key ? "" : `key ${visible(prompt.key)}`, prompt.source, `${prompt.count} visit${prompt.count === 1 ? "" : "s"}`];
  content.replaceChildren(title, element("p", {class: "soft"}, facts.filter(Boolean).join(" · ")));
  if (prompt.text) content.append(written(prompt.text));
  if (prompt.chart) {
    const figure = new Figure();
    content.append(figure.node);
    figure.show(prompt.chart);
  }
  prompt.visits.forEach((visit, i) => {
    const group = element("details"), head = element("summary", {}, `step ${visit.step} `);
    const kind = {"all right": "good", "all wrong": "bad"}[visit.state] ?? "";
    const notes = [visit.state === "mixed" ? `${visit.rate.toFixed(2)} right` : visit.state, visit.reason];
    if (!visit.is_admitted) notes.push("rejected");
    notes.forEach((note, j) => head.append(element("span", {class: `badge ${j ? "" : kind}`}, note)));
    for (const [name, value] of Object.entries(visit.predicted))
      head.append(element("span", {class: "badge"}, `${name.replace("_", " ")} ${value.toFixed(2)}`));
    group.append(head);
    if (!visit.rollouts.length) group.append(element("p", {class: "soft"}, "Its rollouts were not kept."));
    for (const rollout of visit.rollouts) {
      const facts = element("div");
      facts.append(element("span", {class: `badge ${rollout.reward > 0 ? "good" : "bad"}`}, `reward ${rollout.reward == null ? "none" : Number(rollout.reward.toPrecision(4))}`));
      if (rollout.tokens !== null) facts.append(element("span", {class: "badge"}, `${rollout.tokens} tokens`));
      if (rollout.is_cut) facts.append(element("span", {class: "badge bad"}, "cut at the limit"));
      group.append(facts, written(rollout.text));
    }
    group.open = i === prompt.visits.findIndex(one => one.rollouts.length);
    content.append(group);
  });
}

// A text as it is, isolated from what stands around it; a long one is shown in full when asked for.
function written(text) {
  const box = element("pre", {dir: "auto"}, visible(text.slice(0, MOST_TEXT)));
  if (text.length <= MOST_TEXT) return box;
  const more = element("button", {}, `… show all ${text.length.toLocaleString("en")} characters`);
  more.addEventListener("click", () => { box.textContent = visible(text); });
  box.append("\n", more);
  return box;
}

// What moves a cursor or turns a line around is spelt out.
function visible(text) {
  return text.replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069]/g,
    c => "\\u" + c.charCodeAt(0).toString(16).padStart(4, "0"));
}

get("find").addEventListener("submit", event => {
  event.preventDefault();
  openPrompt(Number(event.target.querySelector("input").value));
});
document.addEventListener("visibilitychange", () => { if (!document.hidden) refresh(); });
refresh();
