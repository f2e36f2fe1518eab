'use strict';
// The findings: a list in the order that is worth a look, the card of the selected one, and what a person decides.

const Findings = (() => {
  const KEYS = { e: 'event', n: 'normal', i: 'ignore' };
  let cards = [];       // in the order of the list
  let selected = null;  // the number of the finding whose card is shown
  let undo = [];        // numbers of findings that were decided here, the latest last
  let busy = false;     // one decision at a time: the order of the list follows each

  const sent = (path, body) => ask(path, { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(body) });
  const place = () => cards.findIndex((one) => one.number === selected);

  async function load() {
    try {
      show(await ask('api/findings'));
    } catch (error) { showError(error); }
  }

  function show(answer) {
    cards = answer.cards;
    if (place() < 0) selected = cards.length ? cards[0].number : null;
    $('findings-section').hidden = false;
    $('findings-box').hidden = false;
    $('n-findings').textContent = `${answer.flagged} of ${answer.findings}`;
    $('n-findings-text').textContent = `findings flagged; ${answer.decided} decided${answer.unsaved.length ? `, ${answer.unsaved.length} not saved` : ''}`;
    $('headline').textContent = answer.headline;
    $('save-decisions').disabled = !answer.unsaved.length || !constants.can_save;
    const chosen = $('finding').value;
    const numbers = cards.map((one) => one.number).sort((a, b) => a - b);
    $('finding').replaceChildren(new Option('all', '-1'), ...numbers.map((one) => new Option(String(one), one)));
    $('finding').value = chosen;
    const rows = $('findings-list').tBodies[0];
    rows.replaceChildren(...cards.map((one) => line(one, answer.unsaved.includes(one.number))));
    $('findings-list').hidden = $('decisions').hidden = !cards.length;
    select(selected);
    window.coad.findings = (window.coad.findings || 0) + 1;
  }

  function line(one, unsaved) {
    const row = document.createElement('tr');
    row.dataset.number = one.number;
    const cells = [one.number, one.rows, one.odd_s, one.odd_q, one.beyond, `${one.verdict}${unsaved ? ' *' : ''}`];
    for (const cell of cells) row.insertCell().textContent = cell;
    row.classList.toggle('flagged', one.flagged);
    row.classList.toggle('decided', one.decision !== null);
    row.addEventListener('click', () => select(one.number));
    return row;
  }

  function select(number) {
    selected = number;
    const one = cards[place()];
    for (const row of $('findings-list').tBodies[0].rows) {
      const own = Number(row.dataset.number) === number;
      row.setAttribute('aria-selected', String(own));
      row.tabIndex = own ? 0 : -1;
      if (own) inSight(row);
    }
    $('finding-card').innerHTML = one ? one.html : '';  // made by the server, which escapes every name in it
    for (const button of document.querySelectorAll('[data-decide]')) {
      const said = button.dataset.decide;
      button.setAttribute('aria-pressed', String(Boolean(one && said && one.decision === said)));
      if (!said) button.disabled = !(one && one.decision !== null) && !undo.length;
    }
  }

  // Within the list only: the page itself stays where it is.
  function inSight(row) {
    const box = $('findings-box-list'), top = row.offsetTop - 34, bottom = row.offsetTop + row.offsetHeight;
    if (top < box.scrollTop) box.scrollTop = top;
    else if (bottom > box.scrollTop + box.clientHeight) box.scrollTop = bottom - box.clientHeight;
  }

  function move(step) {
    const next = cards[place() + step];
    if (next) select(next.number);
  }

  // What is decided goes to the end of the list, and the next one is selected; taking back selects what comes back.
  async function decide(decision) {
    if (selected === null || busy) return;
    let number = selected;
    if (decision === null && cards[place()].decision === null) {
      if (!undo.length) return;
      number = undo[undo.length - 1];
    }
    const after = cards.slice(place() + 1).find((one) => one.decision === null) || cards.find((one) => one.decision === null && one.number !== number);
    busy = true;
    $('decided-said').textContent = 'Working…';
    try {
      const answer = await sent('api/decide', { number, decision });
      undo = undo.filter((one) => one !== number);
      if (decision === null) selected = number;
      else { undo.push(number); selected = after ? after.number : number; }
      $('decided-said').textContent = `Finding ${number}: ${decision || 'undecided'}. Not saved yet.`;
      show(answer);
      follow();
    } catch (error) { $('decided-said').textContent = ''; showError(error); }
    busy = false;
  }

  async function save() {
    try {
      const answer = await sent('api/decisions', {});
      $('decided-said').textContent = answer.said;
      undo = [];
      show(answer);
      follow();
    } catch (error) { showError(error); }
  }

  function pressed(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || $('event').open || !cards.length) return;
    if ($('findings-section').getBoundingClientRect().bottom < 100) return;  // nobody decides about what is out of sight
    if (event.target.closest('input, select, textarea, .card, .js-plotly-plot')) return;
    const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
    const step = { ArrowDown: 1, ArrowRight: 1, j: 1, ArrowUp: -1, ArrowLeft: -1, k: -1 }[key];
    if (step) move(step);
    else if (key in KEYS) decide(KEYS[key]);
    else if (key === 'u') decide(null);
    else return;
    event.preventDefault();
  }

  function begin() {
    document.addEventListener('keydown', pressed);
    for (const button of document.querySelectorAll('[data-decide]')) button.addEventListener('click', () => decide(button.dataset.decide || null));
    $('save-decisions').addEventListener('click', save);
    $('finding-label').hidden = false;
    load();
  }

  return { begin };
})();
