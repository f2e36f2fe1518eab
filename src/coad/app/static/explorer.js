'use strict';
// The page: the sliders, the server's answers, and the marks.

const $ = (id) => document.getElementById(id);
const number = (value) => (value === 'inf' ? Infinity : value === '-inf' ? -Infinity : value);
const percent = (value) => `${(100 * value).toFixed(value > 0 && (value < 0.01 || (value >= 0.995 && value < 0.9995)) ? 1 : 0)} %`;
const count = (value) => value.toLocaleString('en');

let constants = null; // what does not change: names, sliders, points
let latest = null;   // the last answer
let more = null;     // the scan, the training and the kinds, once they are ready
let evidence = null; // the tests of the rule that is shown
let surfaceOf = null;  // F̂ over both thresholds for the β of surfaceOf.beta
let opened = null;   // the pair in the dialog
const view = { saved: true, threshold_s: 0.5, threshold_q: 0.5, beta: 1, regime: -1, finding: -1, start: null, end: null, kind: '', mark: '', sort: 'strongest', show: 'events', page: 0 };

// Read by the tests in a browser: how long it took from a move to its numbers, and how many answers came.
window.coad = { latencies: [], answers: 0, verdicts: 0, firstPicture: null, allPictures: null, view };

async function ask(path, options) {
  const answer = await fetch(path, options).catch(() => { throw new Error('The explorer does not answer: is coad explore still running?'); });
  const body = await answer.json().catch(() => ({ error: answer.statusText }));
  if (!answer.ok) throw new Error(body.error || `the server answered ${answer.status}`);
  return body;
}

function showError(error) {
  $('trouble').hidden = !error;
  if (!error) return;
  const refused = error.constructor === Error;  // by the server or on the way to it; all else is a fault of this page
  $('trouble').textContent = refused ? error.message : `This page failed (${error}): please report it.`;
  if (!refused) console.error(error);
}

function query(extra = {}) {
  const parts = new URLSearchParams();
  for (const [name, value] of Object.entries({ ...view, ...extra })) {
    if (value !== null && value !== '') parts.set(name, value === Infinity ? 'inf' : value);
  }
  return parts;
}

// One request at a time; while it is under way only the newest one is kept.
const request = { waiting: false, busy: false, since: 0 };
function look(tune = false) {
  request.tune = tune;
  request.waiting = true;
  if (!request.since) request.since = performance.now();
  if (!request.busy) go();
}
async function go() {
  request.busy = true;
  while (request.waiting) {
    const since = request.since;
    request.waiting = false;
    request.since = 0;
    try {
      const answer = await ask(`api/look?${query(request.tune ? { tune: 1 } : {})}`);
      if (request.waiting) continue;  // stale already
      show(answer);
      if (window.coad.firstPicture === null) window.coad.firstPicture = performance.now();
      showError(answer.trouble ? new Error(answer.trouble) : null);
      window.coad.latencies.push(performance.now() - since);
      window.coad.answers += 1;
      requestAnimationFrame(pictures);
      if (!request.waiting) judge();
    } catch (error) {
      showError(error);
    }
  }
  request.busy = false;
}

function show(answer) {
  latest = answer;
  const numbers = answer.numbers;
  numbers.beta = number(numbers.beta);
  [view.threshold_s, view.threshold_q] = numbers.thresholds.map(number);
  view.saved = answer.own;
  keep();
  view.page = answer.page;
  place('s', view.threshold_s);
  place('q', view.threshold_q);
  $('save').disabled = !answer.unsaved || !constants.can_save;
  $('n-events').textContent = count(answer.events);
  $('n-flagged').textContent = `events, ${count(numbers.n_joint)} flagged of ${count(numbers.n)} ${constants.what}`;
  $('n-flagged').textContent += ` (${percent(numbers.n_joint / numbers.n)})`;
  const nothing = numbers.n_joint === 0;  // then there is nothing to estimate
  $('precision').textContent = nothing ? '–' : percent(numbers.precision_hat);
  $('recall').textContent = nothing ? '–' : percent(numbers.recall_hat);
  $('fbeta').textContent = nothing ? '–' : numbers.fbeta_hat.toFixed(3);
  $('fbeta-text').textContent = `F̂ at β = ${betaText(numbers.beta)}; α, the share of anomalies, ${percent(numbers.alpha)} (${constants.alpha_given ? 'given' : 'estimated'})`;
  const confirmed = answer.confirmed;
  $('confirmed').textContent = confirmed.n ? percent(confirmed.precision) : '–';
  $('confirmed-text').textContent = confirmed.n ? `confirmed, of ${confirmed.n} marked: ${percent(confirmed.low)} to ${percent(confirmed.high)}` : 'confirmed: mark events to see';
  if (answer.judged) { $('judged-box').hidden = false; $('judged').textContent = `${percent(answer.judged[1])} / ${percent(answer.judged[2])}`; }
  const one = view.show !== 'events';
  $('gallery-title').textContent = one ? `Anomalous in ${view.show} only` : answer.shown === answer.events ? `${count(answer.events)} events` : `${count(answer.shown)} of ${count(answer.events)} events`;
  if (!one && !answer.events && answer.cards.length) $('gallery-title').textContent = `Nothing is flagged: the ${constants.what} that are oddest in both inputs`;
  $('page').textContent = ` ${answer.page + 1} of ${answer.pages} `;
  $('before').disabled = answer.page === 0;
  $('after').disabled = answer.page + 1 >= answer.pages;
  $('rule').textContent = answer.rule;
  if (!constants.findings) Scatter.draw(constants.points, view.threshold_s, view.threshold_q, answer.own, !nothing && (constants.lines || !answer.own));
  $('gallery').replaceChildren(...answer.cards.map(card));
  if (!answer.cards.length) {
    const said = document.createElement('p');
    said.textContent = answer.events ? 'No event passes the filters.' : constants.thresholds ? 'Nothing reaches both thresholds.' : 'Nothing is flagged.';
    $('gallery').append(said);
  }
  table('regimes', ['regime', constants.what, 'events', 'flagged', 'rate', 'P̂', 'mean p_s', 'mean p_q'], answer.regimes);
  for (const link of document.querySelectorAll('a[data-export]')) link.href = `export/${link.dataset.export}?${query()}`;
}

function card(one) {
  const box = document.createElement('div');
  box.className = 'card';
  box.innerHTML = one.html;  // made by the server, which escapes every name in it
  box.firstElementChild.tabIndex = 0;
  box.firstElementChild.addEventListener('click', () => open(one.pair));
  box.firstElementChild.addEventListener('keydown', (event) => { if (event.key === 'Enter') open(one.pair); });
  if (one.kind) {
    const kind = document.createElement('div');
    kind.className = 'kind';
    kind.textContent = one.kind;
    box.append(kind);
  }
  const row = document.createElement('div');
  row.className = 'marks';
  row.append(...markButtons(one.pair, one.mark));
  box.append(row);
  return box;
}

function markButtons(pair, said) {
  return ['real', 'not real', 'known'].map((verdict) => {
    const button = document.createElement('button');
    button.type = 'button';
    button.textContent = verdict;
    button.setAttribute('aria-pressed', String(said === verdict));
    button.addEventListener('click', () => mark(pair, said === verdict ? null : verdict));
    return button;
  });
}

// The banner: the verdict on the rule that the tiles show. It takes longer than the tiles, so it follows them.
const banner = { asked: '', busy: false, turn: 0 };
async function judge() {
  const asked = String(query({ page: 0, regime: -1, finding: -1, start: null, end: null, kind: '', mark: '', sort: 'strongest', show: 'events' })) + `#${banner.turn}`;  // the server does not get what follows the #
  if (asked === banner.asked) return;
  banner.asked = asked;
  $('verdict').textContent = 'Testing against chance…';
  $('verdict').className = 'verdict none';
  if (banner.busy) return;
  banner.busy = true;
  while (true) {
    const now = banner.asked;
    try {
      const found = await ask(`api/verdict?${now}`);
      if (now !== banner.asked) continue;
      evidence = found;
      $('verdict').textContent = found.verdict;
      $('verdict').className = `verdict ${found.tone}`;
      const doubtful = found.tone !== 'good' && found.flagged > 0;
      $('numbers').classList.toggle('doubt', doubtful);
      $('doubt').hidden = !doubtful;
      const between = (ends) => (found.flagged ? `, 95 %: ${percent(ends[0])} to ${percent(ends[1])}` : '');
      $('precision-text').textContent = `P̂, not explained by chance${between(found.intervals.precision_hat)}`;
      $('recall-text').textContent = `R̂, found among all${between(found.intervals.recall_hat)}`;
      table('checks', ['assumption', 'measured', 'outcome'], found.checks);
      window.coad.verdicts += 1;
      if ($('more').open) tests();
    } catch (error) { showError(error); }
    if (now === banner.asked) break;
  }
  banner.busy = false;
}

// After another decision: other numbers, and the banner for them.
function follow() {
  banner.turn += 1;
  look();
}

async function saveRule() {
  try {
    const { threshold_s, threshold_q, beta, saved } = view;
    const limit = (value) => (Number.isFinite(value) ? value : value > 0 ? 'inf' : '-inf');
    const answer = await ask('api/rule', { method: 'POST', headers: { 'Content-Type': 'application/json' },
      body: JSON.stringify({ threshold_s: limit(threshold_s), threshold_q: limit(threshold_q), beta: beta === Infinity ? 'inf' : beta, saved }) });
    sessionStorage.setItem('said', answer.said);
    history.replaceState(null, '', location.pathname);
    location.reload();  // other events, other kinds
  } catch (error) { showError(error); }
}

// What was chosen stays in the address, so that reloading the page keeps it.
function keep() {
  const chosen = view.saved ? '' : `#${new URLSearchParams({ threshold_s: view.threshold_s, threshold_q: view.threshold_q, beta: view.beta })}`;
  if (location.hash !== chosen) history.replaceState(null, '', location.pathname + chosen);
}

async function mark(pair, verdict) {
  try {
    await ask('api/mark', { method: 'POST', headers: { 'Content-Type': 'application/json' },
      body: JSON.stringify({ pair, verdict, threshold_s: Math.min(view.threshold_s, 2), threshold_q: Math.min(view.threshold_q, 2), saved: view.saved }) });
    look();
    if (opened === pair && $('event').open) open(pair);
  } catch (error) {
    showError(error);
  }
}

// Plotly is large, and reading it stops the page for a second or two: it comes after the first picture.
let plotly = null;
function loaded() {
  plotly ??= new Promise((ready, failed) => {
    const script = document.createElement('script');
    script.addEventListener('load', ready);
    script.addEventListener('error', () => failed(new Error('the pictures could not be loaded; reload the page')));
    script.src = 'static/plotly.min.js';
    document.head.append(script);
  });
  return plotly;
}

async function pictures() {
  try {
    await loaded();
  } catch (error) { showError(error); return; }
  const numbers = latest.numbers;
  Pictures.timeline(latest.timeline, constants.clock && constants.clock.dates);
  if (!constants.thresholds) surfaceOf = { beta: view.beta, data: undefined };
  if (!surfaceOf || surfaceOf.beta !== view.beta) {
    const beta = view.beta;
    try {
      surfaceOf = { beta, data: await ask(`api/surface?beta=${beta === Infinity ? 'inf' : beta}`) };
    } catch (error) { showError(error); return; }
  }
  if (constants.thresholds) Pictures.surface(surfaceOf.data, numbers);
  listen();
  if (window.coad.allPictures === null) window.coad.allPictures = performance.now();
  if (more && $('more').open) tests();
}

function tests() {
  if (!more || !more.scan) return;
  if (constants.thresholds) { Pictures.curve(more.scan, latest.numbers); Pictures.scanned(more.scan, latest.numbers); }
  if (evidence && evidence.null) Pictures.chance(evidence.null, evidence.observed);
  $('history').hidden = !more.history.length;
  if (more.history.length) Pictures.history(more.history);
}

async function wait() {
  try {
    more = await ask('api/more');
  } catch (error) { showError(error); return; }
  if (!more.ready) { setTimeout(wait, 400); return; }
  if (more.failed) { showError(new Error(more.failed)); return; }
  more.scan.forEach((point) => ['beta', 'threshold_s', 'threshold_q'].forEach((name) => { point[name] = number(point[name]); }));
  table('seeds', ['seed', 'status', 'F̂', 'P̂', 'R̂', 'best epoch'], more.seeds.map((one) => [`${one.seed}${one.kept ? ' (kept)' : ''}`, one.status,
    one.fbeta_hat.toFixed(3), percent(one.precision_hat), percent(one.recall_hat), `${one.best_epoch} of ${one.epochs}`]));
  kinds(more.kinds);
  if ($('more').open) tests();
  if (more.kinds.length) look();
}

function kinds(found) {
  $('kinds-section').hidden = $('kind-label').hidden = !found.length;
  if (!found.length) return;
  const chosen = $('kind').value;
  $('kind').replaceChildren(new Option('all', ''), ...found.map((one) => new Option(one.name || one.label, one.kind)));
  $('kind').value = chosen;
  const box = document.createElement('table');
  const head = box.createTHead().insertRow();
  for (const name of ['kind', 'events', 'stability', 'name', '']) head.append(Object.assign(document.createElement('th'), { textContent: name }));
  for (const one of found) {
    const row = box.insertRow();
    row.insertCell().textContent = one.label;
    row.insertCell().textContent = count(one.events);
    row.insertCell().textContent = percent(one.stability);
    const name = Object.assign(document.createElement('input'), { value: one.name || '', placeholder: 'name it', maxLength: 100 });
    name.setAttribute('aria-label', `name of ${one.label}`);
    name.addEventListener('change', () => note(one.kind, name.value, one.dismissed, one.dismissed));
    row.insertCell().append(name);
    const button = Object.assign(document.createElement('button'), { type: 'button', textContent: one.dismissed ? 'restore' : 'dismiss' });
    button.addEventListener('click', () => note(one.kind, name.value, !one.dismissed, one.dismissed));
    row.insertCell().append(button);
  }
  $('kinds').replaceChildren(box);
}

async function note(kind, name, dismissed, before) {
  try {
    const answer = await ask('api/kind', { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify({ kind: String(kind), name, dismissed }) });
    if (dismissed !== before) { location.reload(); return; }  // other thresholds, other events
    kinds(answer.kinds);
    look();
  } catch (error) { showError(error); }
}

function table(id, head, rows) {
  const box = document.createElement('table');
  const top = box.createTHead().insertRow();
  for (const name of head) top.append(Object.assign(document.createElement('th'), { textContent: name }));
  for (const cells of rows) {
    const row = box.insertRow();
    for (const cell of cells) row.insertCell().textContent = cell;
  }
  $(id).replaceChildren(rows.length ? box : 'There is none.');
}

async function open(pair) {
  opened = pair;
  try {
    const one = await ask(`api/event/${pair}?${query({ page: 0 })}`);
    if (opened !== pair) return;
    $('event-title').textContent = one.title;
    $('event-facts').textContent = [one.facts, one.file, one.flagged ? 'flagged' : 'not flagged', one.kind, one.label === null ? null : `label: ${one.label ? 'anomalous' : 'normal'}`].filter(Boolean).join(' · ');
    $('event-s-title').textContent = constants.findings ? 's' : `s: p_s = ${one.p_s.toFixed(4)}`;
    $('event-q-title').textContent = constants.findings ? 'q' : `q: p_q = ${one.p_q.toFixed(4)}`;
    $('event-marks').replaceChildren(...markButtons(pair, one.mark));
    $('event').dataset.mark = one.mark || '';
    $('event-why').replaceChildren();
    if (!$('event').open) $('event').showModal();
    await loaded();
    Pictures.input('event-s', one.s);
    Pictures.input('event-q', one.q);
    if (constants.why) explain(pair);
  } catch (error) { showError(error); }
}

async function explain(pair) {
  try {
    const why = await ask(`api/why/${pair}`);
    if (opened !== pair) return;
    Pictures.input('event-s', why.s);
    Pictures.input('event-q', why.q);
    if (why.lines.length) table('event-why', ['largest contributions', 'where', 'share'], why.lines);
    else $('event-why').textContent = 'Orange contributes to an anomaly, blue against it.';
  } catch (error) { $('event-why').textContent = String(error.message || error); }
}

// Sliders.

const betaText = (beta) => (beta === Infinity ? '∞' : String(+beta.toPrecision(3)));

function place(side, value) {
  const steps = constants.sliders[side];
  let nearest = steps.findIndex((one) => one >= value);
  if (nearest < 0) nearest = steps.length - 1;
  $(`slider-${side}`).value = nearest;
  if (document.activeElement !== $(`exact-${side}`)) $(`exact-${side}`).value = Number.isFinite(value) ? +value.toPrecision(9) : '';
}

function begin() {
  document.title = `${constants.names} · coad`;
  $('scatter-section').hidden = constants.findings;  // a finding decides by both inputs: there are no confidences to show
  if (!constants.findings) Scatter.begin(open);
  $('title').textContent = constants.names;
  constants.betas = constants.betas.map(number);
  constants.start = constants.start.map(number);
  const slider = $('beta');
  slider.min = 0;
  slider.max = constants.betas.length - 1;
  const setBeta = (beta) => {
    view.beta = beta;
    $('beta-text').textContent = betaText(beta);
  };
  const atModel = () => {
    const distance = constants.betas.map((one) => (one === constants.beta ? -1 : Math.abs(Math.log(one / constants.beta))));
    slider.value = distance.indexOf(Math.min(...distance));
    setBeta(number(constants.beta));
    [view.threshold_s, view.threshold_q] = constants.start;
    view.saved = true;
    $('follow').checked = false;
  };
  constants.beta = number(constants.beta);
  slider.addEventListener('input', () => { setBeta(constants.betas[slider.value]); if (view.saved) $('follow').checked = true; view.saved = false; view.page = 0; look($('follow').checked); });
  for (const side of ['s', 'q']) {
    const own = $(`slider-${side}`);
    own.min = 0;
    own.max = constants.sliders[side].length - 1;
    own.addEventListener('input', () => { $('follow').checked = false; view.saved = false; view[`threshold_${side}`] = constants.sliders[side][own.value]; view.page = 0; look(); });
    $(`exact-${side}`).addEventListener('change', (event) => {
      const value = Number(event.target.value);
      if (event.target.value === '' || !Number.isFinite(value)) { place(side, view[`threshold_${side}`]); return; }
      $('follow').checked = false;
      view.saved = false;
      view[`threshold_${side}`] = value;
      view.page = 0;
      look();
    });
  }
  $('follow').addEventListener('change', () => { if ($('follow').checked) { view.saved = false; look(true); } });
  $('reset').addEventListener('click', () => { atModel(); look(); });
  $('save').addEventListener('click', saveRule);
  for (const part of document.querySelectorAll('[data-thresholds]')) part.hidden = !constants.thresholds;
  $('said').textContent = sessionStorage.getItem('said') || '';
  sessionStorage.removeItem('said');
  for (const name of ['show', 'regime', 'finding', 'kind', 'mark', 'sort']) {
    $(name).addEventListener('change', () => { view[name] = ['regime', 'finding'].includes(name) ? Number($(name).value) : $(name).value; view.page = 0; look(); });
  }
  $('regime').append(...constants.regimes.map((name, i) => new Option(name, i)));
  $('regime-label').hidden = !constants.regimes.length;
  $('clock').hidden = !constants.clock;
  for (const name of ['start', 'end']) {
    const field = $(name);
    if (constants.clock) { field.type = constants.clock.dates ? 'datetime-local' : 'number'; field.step = constants.clock.dates ? 1 : 'any'; }
    field.addEventListener('change', () => {
      view[name] = field.value === '' ? null : constants.clock.dates ? Date.parse(`${field.value}Z`) / 1000 : Number(field.value);
      view.page = 0;
      look();
    });
  }
  const setTime = (low, high) => {
    [view.start, view.end] = [low, high];
    for (const [name, value] of [['start', low], ['end', high]]) $(name).value = value === null ? '' : constants.clock.dates ? new Date(1000 * value).toISOString().slice(0, 19) : value;
  };
  $('clear').addEventListener('click', () => {
    for (const [name, value] of [['show', 'events'], ['regime', '-1'], ['finding', '-1'], ['kind', ''], ['mark', ''], ['sort', 'strongest']]) $(name).value = value;
    Object.assign(view, { show: 'events', regime: -1, finding: -1, kind: '', mark: '', sort: 'strongest', page: 0 });
    if (constants.clock) setTime(null, null);
    look();
  });
  $('before').addEventListener('click', () => { view.page -= 1; look(); });
  $('after').addEventListener('click', () => { view.page += 1; look(); });
  $('more').addEventListener('toggle', () => { if ($('more').open) tests(); });
  $('controls').addEventListener('submit', (event) => event.preventDefault());
  $('close').addEventListener('click', () => $('event').close());
  if (constants.findings) Findings.begin();
  $('event').addEventListener('close', () => { opened = null; });
  $('event').addEventListener('keydown', (event) => {
    const verdict = { r: 'real', n: 'not real', k: 'known', u: null }[event.key];
    if (verdict !== undefined) { mark(opened, verdict); event.preventDefault(); }
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (step) {
      const pairs = latest.cards.map((one) => one.pair);
      const next = pairs[pairs.indexOf(opened) + step];
      if (next !== undefined) open(next);
      event.preventDefault();
    }
  });
  atModel();
  const chosen = new URLSearchParams(location.hash.slice(1));
  if (['threshold_s', 'threshold_q', 'beta'].every((name) => chosen.get(name) && Number(chosen.get(name)) >= 0)) {
    $('follow').checked = false;
    view.saved = false;
    setBeta(Number(chosen.get('beta')));
    [view.threshold_s, view.threshold_q] = ['threshold_s', 'threshold_q'].map((name) => Number(chosen.get(name)));
  }
  return setTime;
}

// A picture takes clicks once it is drawn; the surface may be drawn later than the others, or never.
const heard = new Set();
let setTime = null;
function listen() {
  const answers = {
    timeline: ['plotly_relayout', (event) => {
      const [low, high] = [event['xaxis.range[0]'], event['xaxis.range[1]']];
      if (low === undefined || !constants.clock) return;
      const seconds = (one) => (constants.clock.dates ? Date.parse(`${String(one).replace(' ', 'T')}Z`) / 1000 : Number(one));
      setTime(seconds(low), seconds(high));
      view.page = 0;
      look();
    }],
    surface: ['plotly_click', (event) => {
      const taken = event.points[0].customdata;
      if (!taken) return;
      $('follow').checked = false;
      view.saved = false;
      [view.threshold_s, view.threshold_q] = taken;
      view.page = 0;
      look();
    }],
  };
  for (const [id, [event, answer]] of Object.entries(answers)) {
    if (heard.has(id) || !$(id).on) continue;
    $(id).on(event, answer);
    heard.add(id);
  }
}

async function main() {
  try {
    constants = await ask('api/start');
  } catch (error) { showError(error); return; }
  setTime = begin();
  $('verdict').textContent = 'Testing against chance…';
  request.since = performance.now();
  look();
  wait();
}

main();
