"use strict";
// Drawings of the page: strips of signals, and events in time. Colours are those of the style sheet.

const DAY_1990 = 6.3e17; // nanoseconds; earlier times are plain seconds of a recording without dates
const MOST_STRIPS = 16, GUTTER = 92; // strips of one drawing; room at their left for names and values

function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

function pad(number, digits = 2) { return String(number).padStart(digits, "0"); }

// A time in nanoseconds: the clock of this browser, with the date if it is not today's.
function when(ns, parts = "seconds") {
  if (ns === null || ns === undefined) return "–";
  if (ns < DAY_1990) return `${(ns / 1e9).toFixed(2)} s`;
  const at = new Date(ns / 1e6);
  const clock = `${pad(at.getHours())}:${pad(at.getMinutes())}` + (parts === "minutes" ? "" : `:${pad(at.getSeconds())}`);
  const date = `${at.getFullYear()}-${pad(at.getMonth() + 1)}-${pad(at.getDate())}`;
  return at.toDateString() === new Date().toDateString() ? clock : `${date} ${clock}`;
}

function ready(canvas, height) {
  const width = canvas.clientWidth, scale = window.devicePixelRatio || 1;
  canvas.style.height = `${height}px`;
  if (canvas.width !== Math.round(width * scale) || canvas.height !== Math.round(height * scale)) {
    canvas.width = Math.round(width * scale);
    canvas.height = Math.round(height * scale);
  }
  const pen = canvas.getContext("2d");
  pen.setTransform(scale, 0, 0, scale, 0, 0);
  pen.clearRect(0, 0, width, height);
  pen.font = "11px system-ui, sans-serif";
  return [pen, width];
}

function short(value) {
  return Math.abs(value) >= 1e5 || (value !== 0 && Math.abs(value) < 1e-3) ? value.toExponential(2) : String(Number(value.toPrecision(4)));
}

// One strip for each column, each with its own scale; events of the station are shaded.
function drawWaves(canvas, times, columns, events) {
  const names = Object.keys(columns).slice(0, MOST_STRIPS), n = times.length;
  const strip = names.length > 4 ? 26 : names.length > 1 ? 56 : 120, bottom = 16;
  const more = Object.keys(columns).length - names.length;
  const height = Math.max(names.length, 1) * strip + bottom;
  const [pen, width] = ready(canvas, height);
  pen.fillStyle = colour("soft");
  if (n < 2) { pen.fillText("nothing has come yet", 2, 20); return; }
  const from = times[0], to = times[n - 1], x = (t) => GUTTER + ((t - from) / Math.max(to - from, 1)) * (width - GUTTER);
  pen.fillStyle = colour("red");
  pen.globalAlpha = 0.16;
  for (const one of events) {
    if (one.end >= from && one.start <= to) pen.fillRect(x(one.start) - 1, 0, Math.max(x(one.end) - x(one.start), 2) + 2, height - bottom);
  }
  pen.globalAlpha = 1;
  names.forEach((name, k) => {
    const values = columns[name], known = values.filter((value) => value !== null);
    const low = Math.min(...known), high = Math.max(...known), top = k * strip + 3, tall = strip - 6;
    pen.strokeStyle = colour("blue");
    pen.lineWidth = 1.2;
    pen.beginPath();
    let down = false;
    for (let i = 0; i < n; i++) {
      if (values[i] === null) { down = false; continue; }
      const y = top + tall - (high > low ? (values[i] - low) / (high - low) : 0.5) * tall;
      if (down) pen.lineTo(x(times[i]), y); else pen.moveTo(x(times[i]), y);
      down = true;
    }
    pen.stroke();
    const last = known.length ? short(known[known.length - 1]) : "missing";
    const middle = top + tall / 2;
    pen.fillStyle = colour("ink");
    const label = strip > 30 ? [[name.slice(0, 14), middle - 3], [last, middle + 11]] : [[`${name.slice(0, 6)} ${last}`, middle + 4]];
    for (const [text, y] of label) pen.fillText(text, 0, y, GUTTER - 6);
  });
  pen.fillStyle = colour("soft");
  pen.fillText(when(from), GUTTER, height - 4);
  const end = when(to) + (more > 0 ? `, ${more} more columns` : "");
  pen.fillText(end, width - pen.measureText(end).width - 2, height - 4);
}

// A line for each station that had events; returns which station stands where.
function drawTimeline(canvas, events, now, seconds) {
  const shown = seconds ? events.filter((one) => one.end >= now - seconds * 1e9) : events;
  const stations = [...new Set(shown.map((one) => one.station))].sort((a, b) => a.localeCompare(b, undefined, { numeric: true }));
  const row = stations.length > 24 ? 9 : 16, left = 70, bottom = 18;
  const height = Math.max(stations.length, 2) * row + bottom;
  const [pen, width] = ready(canvas, height);
  const oldest = shown.length ? Math.min(...shown.map((one) => one.start)) : now - 6e11;
  const from = seconds ? now - seconds * 1e9 : oldest, x = (t) => left + ((t - from) / Math.max(now - from, 1)) * (width - left - 6);
  pen.fillStyle = colour("soft");
  if (!shown.length) { pen.fillText("no events in this time", left, 16); }
  pen.strokeStyle = colour("line");
  stations.forEach((name, k) => {
    const y = k * row + row / 2;
    pen.beginPath(); pen.moveTo(left, y); pen.lineTo(width, y); pen.stroke();
    if (row > 10 || k % 2 === 0) { pen.fillStyle = colour("soft"); pen.fillText((name || "input").slice(0, 11), 0, y + 4); }
  });
  for (const one of shown) {
    const y = stations.indexOf(one.station) * row;
    pen.fillStyle = colour(one.state === "open" ? "red" : "blue");
    pen.fillRect(x(Math.max(one.start, from)) - 1, y + 2, Math.max(x(one.end) - x(Math.max(one.start, from)), 2) + 1, row - 4);
  }
  pen.fillStyle = colour("soft");
  pen.fillText(when(from, "minutes"), left, height - 4);
  const end = when(now, "minutes");
  pen.fillText(end, width - pen.measureText(end).width - 2, height - 4);
  return (y) => stations[Math.floor(y / row)];
}
