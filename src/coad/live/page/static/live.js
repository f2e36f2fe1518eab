"use strict";
// The page of a watch: takes what changes from the stream, draws it, and sends what people do about alarms.

const state = { role: "view", now: null, stations: {}, waves: null, alarms: [], events: [], refusals: [], drift: [] };
const byId = (id) => document.getElementById(id);
const GLYPH = { alarm: "!", shelved: "z", stale: "…", disconnected: "✕", quiet: "" };
const WORST = ["alarm", "disconnected", "stale", "shelved", "quiet"];
const MANY = 150; // tiles; more of them are drawn smaller
const WORDS = { acknowledge: "Acknowledge", shelve: "Shelve", unshelve: "Unshelve", clear: "Clear", confirm: "Confirm", false: "False alarm" };
let selected = decodeURIComponent(location.hash.slice(1)), stream = null, stationAt = () => undefined, acting = null;

function element(kind, text, name) {
  const made = document.createElement(kind);
  if (text !== undefined) made.textContent = text;
  if (name) made.className = name;
  return made;
}

function called(station) {
  return { "": "input", system: "several stations", unclear: "unclear which station" }[station] ?? station;
}

function few(names, most = 6) {
  return names.slice(0, most).map(called).join(", ") + (names.length > most ? ` and ${names.length - most} more` : "");
}

function listen() {
  if (stream) stream.close();
  stream = new EventSource(`api/stream?station=${encodeURIComponent(selected)}`);
  stream.onmessage = (message) => {
    const news = JSON.parse(message.data);
    Object.assign(state, news);
    byId("trouble").hidden = !state.now.trouble;
    byId("trouble").textContent = state.now.trouble;
    show(news);
  };
  stream.onerror = () => {
    byId("status").textContent = "not connected";
    byId("status").className = "pill lost";
    byId("trouble").hidden = false;
    byId("trouble").textContent = "The watch does not answer: what you see is old. The page tries again by itself.";
  };
}

function show(news) {
  const names = Object.keys(state.stations);
  if (names.length && !names.includes(selected)) { choose(firstChoice(names)); return; }
  showNow();
  if (news.stations) showTiles();
  if (news.alarms || news.role) showAlarms();
  if (news.refusals) showRefusals();
  if (news.drift) showDrift();
  draw();
}

function firstChoice(names) {
  return names.find((name) => state.stations[name].state === "alarm") ?? names[0];
}

function choose(station) {
  selected = station;
  history.replaceState(null, "", `#${encodeURIComponent(station)}`);
  showTiles();
  listen();
}

function showNow() {
  const now = state.now, count = now.counters, stations = Object.values(state.stations);
  const number = (id, value, bad = false) => {
    byId(id).textContent = value;
    byId(id).parentElement.classList.toggle("bad", bad);
  };
  byId("status").textContent = now.status;
  byId("status").className = `pill ${now.trouble ? "trouble-state" : now.status}`;
  const late = now.lag_s >= 5 ? `, nothing came for ${Math.round(now.lag_s)} s` : "";
  byId("clock").textContent = `data up to ${when(now.time)}${late}`;
  byId("who").textContent = state.role === "operate" ? `${now.model} · ${now.rule}` : `${now.model} · ${now.rule} · this address only looks`;
  const waiting = state.alarms.filter((one) => one.state === "raised" || one.state === "latched").length;
  number("n-alarms", waiting, waiting > 0);
  number("n-stations", stations.filter((one) => one.state === "alarm").length);
  byId("n-stations-text").textContent = `of ${stations.length} stations in alarm`;
  const unheard = stations.filter((one) => one.state === "stale" || one.state === "disconnected").length;
  number("n-unheard", unheard, unheard > 0);
  number("n-flagged", (count.flagged ?? 0).toLocaleString("en"));
  byId("n-flagged-text").textContent = `of ${(count.pairs ?? 0).toLocaleString("en")} pairs flagged`;
  number("n-refused", state.refusals.reduce((sum, one) => sum + one.n_pairs, 0).toLocaleString("en"));
  byId("n-refused-text").textContent = state.refusals.length < 100 ? "pairs not scored" : "pairs not scored of late"; // the last 100 stretches
  number("n-confirmed", now.marked ? `${now.confirmed} of ${now.marked}` : "–");
  document.title = waiting ? `(${waiting}) coad watch` : "coad watch";
  showHealth(now);
}

function showTiles() {
  const box = byId("tiles"), wanted = byId("filter").value.toLowerCase(), order = byId("order").value;
  let names = Object.keys(state.stations).filter((name) => called(name).toLowerCase().includes(wanted));
  if (order === "not quiet") names = names.filter((name) => state.stations[name].state !== "quiet");
  names.sort((a, b) => a.localeCompare(b, undefined, { numeric: true }));
  if (order === "worst") names.sort((a, b) => WORST.indexOf(state.stations[a].state) - WORST.indexOf(state.stations[b].state));
  box.classList.toggle("many", names.length > MANY);
  while (box.children.length > names.length) box.lastChild.remove();
  names.forEach((name, k) => {
    // Tiles are changed and not made anew: a tile that is about to be pressed must not vanish.
    let tile = box.children[k];
    if (!tile) {
      tile = element("button");
      tile.type = "button";
      tile.append(element("span", "", "glyph"), element("span", "", "name"), element("span", "", "bar"));
      tile.addEventListener("click", () => choose(tile.dataset.station));
      box.append(tile);
    }
    const one = state.stations[name], [glyph, label, bar] = tile.children;
    tile.dataset.station = name;
    tile.className = `tile ${one.state}`;
    glyph.textContent = GLYPH[one.state];
    label.textContent = called(name);
    bar.style.width = `${100 * (one.score ?? 0)}%`;
    const scores = one.score === null ? "not scored yet" : `p_s ${one.p_s.toFixed(3)}, p_q ${one.p_q.toFixed(3)}`;
    tile.title = `${called(name)}: ${one.state}, ${scores}, last sample ${when(one.time)}`;
    tile.setAttribute("aria-label", tile.title);
    tile.setAttribute("aria-pressed", String(name === selected));
  });
}

function showAlarms() {
  const box = byId("alarms"), all = byId("show-cleared").checked;
  const focus = document.activeElement?.dataset?.act ? document.activeElement.dataset : null;
  const rank = { raised: 0, latched: 1, acknowledged: 2, shelved: 3, cleared: 4 };
  const shown = state.alarms.filter((one) => all || one.state !== "cleared").sort((a, b) => rank[a.state] - rank[b.state] || b.raised - a.raised);
  box.replaceChildren(...shown.map(alarmCard));
  if (!shown.length) box.append(element("p", state.alarms.length ? "No alarm that is not cleared." : "No alarm yet.", "none"));
  if (focus) box.querySelector(`[data-key="${focus.key}"][data-act="${focus.act}"]`)?.focus();
}

function alarmCard(alarm) {
  const card = element("article", undefined, `alarm-card ${alarm.state}`), first = element("div", undefined, "first");
  const name = element("button", called(alarm.station), "station");
  name.type = "button";
  name.addEventListener("click", () => { if (alarm.station in state.stations) choose(alarm.station); });
  const kind = { event: "", system: "system", drift: "drift", source: "not reached" }[alarm.kind] ?? alarm.kind;
  first.append(name, element("span", `${kind} ${when(alarm.raised)}`.trim(), "soft"), element("span", alarm.state, "state"));
  card.append(first);
  const facts = [];
  if (alarm.score) facts.push(`score ${alarm.score.toFixed(3)}`);
  if (alarm.events.length > 1) facts.push(`${alarm.events.length} events`);
  if (alarm.state === "shelved") facts.push(`until ${when(alarm.until)}`);
  if (alarm.cleared) facts.push(`cleared ${when(alarm.cleared)}`);
  if (!(alarm.station in state.stations)) {
    const part = state.events.filter((one) => alarm.events.includes(one.key)).flatMap((one) => one.stations ?? []);
    if (part.length) facts.unshift(few([...new Set(part)]));
  }
  const text = [alarm.text, facts.join(", ")].filter(Boolean).join(" · ");
  if (text) card.append(element("p", text, "soft"));
  const verdict = { confirmed: "Confirmed", false: "False alarm" }[alarm.verdict];
  if (alarm.person) card.append(element("p", [verdict, alarm.person, alarm.note].filter(Boolean).join(" · "), "said"));
  if (state.role === "operate") {
    const buttons = element("p", undefined, "buttons");
    for (const action of actionsOf(alarm)) {
      const button = element("button", WORDS[action] + (action === "shelve" ? "…" : ""), action === "acknowledge" ? "main" : "");
      button.type = "button";
      Object.assign(button.dataset, { key: alarm.key, act: action });
      button.addEventListener("click", () => ask(alarm, action));
      buttons.append(button);
    }
    card.append(buttons);
  }
  return card;
}

function actionsOf(alarm) {
  const actions = [];
  if (alarm.state === "raised" || alarm.state === "latched") actions.push("acknowledge");
  if (alarm.state === "shelved") actions.push("unshelve");
  else if (alarm.state !== "cleared") actions.push("shelve");
  if (alarm.kind === "event" || alarm.kind === "system") actions.push("confirm", "false");
  return actions.filter((action) => !(action === "confirm" && alarm.verdict === "confirmed") && !(action === "false" && alarm.verdict === "false"));
}

function ask(alarm, action) {
  acting = { key: alarm.key, action };
  byId("act-title").textContent = `${WORDS[action]}: ${called(alarm.station)}, ${when(alarm.raised)}`;
  byId("act-yes").textContent = WORDS[action];
  byId("act-person").value = localStorage.getItem("coad-person") ?? "";
  byId("act-note").value = "";
  byId("act-until").hidden = action !== "shelve";
  byId("act-error").hidden = true;
  byId("act").showModal();
  byId(byId("act-person").value ? "act-note" : "act-person").focus();
}

async function send(event) {
  event.preventDefault();
  const person = byId("act-person").value.trim(), body = { ...acting, person, note: byId("act-note").value.trim() };
  if (acting.action === "shelve") body.minutes = Number(byId("act-minutes").value);
  localStorage.setItem("coad-person", person);
  let said = "";
  try {
    const answer = await fetch("api/act", { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });
    const alarm = await answer.json();
    if (!answer.ok) said = alarm.error;
    else state.alarms = state.alarms.map((one) => (one.key === alarm.key ? alarm : one));
  } catch {
    said = "The watch does not answer; nothing was done.";
  }
  byId("act-error").textContent = said;
  byId("act-error").hidden = !said;
  if (!said) { byId("act").close(); showAlarms(); showNow(); }
}

function table(box, heads, rows, none) {
  if (!rows.length) { box.replaceChildren(element("p", none, "none")); return; }
  const made = element("table", undefined, "left"), head = element("tr");
  head.append(...heads.map((text) => element("th", text)));
  made.append(head, ...rows.map((cells) => {
    const row = element("tr");
    row.append(...cells.map((cell) => (cell instanceof Object ? element("td", cell.text, "bad") : element("td", cell))));
    return row;
  }));
  box.replaceChildren(made);
}

function showRefusals() {
  // What hit many stations at once, for the same reason, is one line.
  const lines = new Map();
  for (const one of state.refusals) {
    const key = `${when(one.end)} ${one.text}`, line = lines.get(key) ?? { ...one, n_pairs: 0, stations: [] };
    line.n_pairs += one.n_pairs;
    line.stations.push(one.station);
    lines.set(key, line);
  }
  const rows = [...lines.values()].slice(0, 50).map((one) => [when(one.end), few([...new Set(one.stations)], 3), one.n_pairs.toLocaleString("en"), one.text]);
  table(byId("refusals"), ["until", "station", "pairs", "why"], rows, "Every pair was scored.");
}

function showDrift() {
  // The line without a name sums up its station; those that drift come first.
  const lines = [...state.drift].sort((a, b) => (b.state === "drifting") - (a.state === "drifting") || b.psi - a.psi);
  const rows = lines.slice(0, 60).map((one) => [called(one.station), (one.name || "in all") + (one.context ? ` (${one.context})` : ""),
    one.psi?.toFixed(3) ?? "–", one.state === "drifting" ? { text: one.text || one.state } : one.state]);
  table(byId("drift"), ["station", "what", "PSI", "says"], rows, "Nothing to compare: [drift] is not set, or its reference is not full yet.");
}

function showHealth(now) {
  const rows = Object.entries(now.outputs).map(([name, one]) => [`output ${name}`,
    one.error ? { text: `${one.behind} behind: ${one.error}` } : one.behind ? `${one.behind} behind` : "well"]);
  const away = Object.entries(now.source.connected).filter(([, up]) => !up).map(([name]) => name);
  rows.push(["source", away.length ? { text: `cannot reach ${few(away, 8)}` } : "connected"]);
  for (const [name, n] of Object.entries(now.source.counters)) rows.push([`source: ${name}`, n.toLocaleString("en")]);
  for (const [name, n] of Object.entries(now.counters)) rows.push([name, n.toLocaleString("en")]);
  table(byId("health"), ["", ""], rows, "");
}

function draw() {
  const events = state.events.filter((one) => one.station === selected), waves = state.waves;
  byId("waves-title").textContent = `Live signals of ${called(selected)}`;
  if (waves) {
    drawWaves(byId("wave-s"), waves.time, waves.s, events);
    drawWaves(byId("wave-q"), waves.time_q, waves.q, events);
  }
  if (state.now) stationAt = drawTimeline(byId("timeline"), state.events, state.now.time ?? 0, Number(byId("range").value));
}

byId("filter").addEventListener("input", showTiles);
byId("order").addEventListener("change", showTiles);
byId("show-cleared").addEventListener("change", showAlarms);
byId("range").addEventListener("change", draw);
byId("timeline").addEventListener("click", (event) => {
  const station = stationAt(event.offsetY);
  if (station in state.stations) choose(station);
});
byId("act").querySelector("form").addEventListener("submit", send);
byId("act-no").addEventListener("click", () => byId("act").close());
window.addEventListener("resize", draw);
window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
listen();
