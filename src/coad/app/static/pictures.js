'use strict';
// The pictures: plain data in, Plotly out, in the colours of day or night.

const Pictures = (() => {
  const BLUE = '#0072B2', ORANGE = '#E69F00', RED = '#D55E00', GREY = '#999999', SKY = '#56B4E9';
  const LANES = [BLUE, RED, '#009E73', '#CC79A7', ORANGE, SKY];
  const night = window.matchMedia('(prefers-color-scheme: dark)');
  const known = new Map();  // place -> how it was last drawn, to draw it again in other colours

  function colours() {
    return night.matches ? { ink: '#e7eaee', line: '#39424c', band: 'rgba(140,160,180,.28)' }
      : { ink: '#1d2126', line: '#dfe3e8', band: 'rgba(110,130,150,.25)' };
  }

  function layout(more) {
    const { ink, line } = colours();
    const axis = { gridcolor: line, linecolor: line, zeroline: false, automargin: true };
    const full = {
      paper_bgcolor: 'rgba(0,0,0,0)', plot_bgcolor: 'rgba(0,0,0,0)', font: { color: ink, size: 12, family: 'system-ui, sans-serif' },
      margin: { l: 50, r: 10, t: 8, b: 40 }, hovermode: 'closest', showlegend: false, ...more,
    };
    for (const name of Object.keys(full).filter((key) => /^[xy]axis\d*$/.test(key))) full[name] = { ...axis, ...full[name] };
    return full;
  }

  function draw(id, data, more, repeat) {
    known.set(id, repeat);
    return Plotly.react(id, data, layout(more), { displaylogo: false, responsive: true, displayModeBar: false });
  }

  // Text of users in a picture: Plotly reads a little HTML there, so its signs are taken away.
  const text = (value) => String(value).replace(/&/g, '&amp;').replace(/</g, '&lt;').replace(/>/g, '&gt;');

  function surface(data, numbers) {
    if (!data) { document.getElementById('surface').textContent = 'An input takes one value in more than half of the rows.'; return null; }
    const ticks = [1e-5, 1e-4, 1e-3, 0.01, 0.1, 0.5];
    const axis = { tickvals: ticks.map(Math.log10), ticktext: ticks.map((one) => `${+(100 * one).toPrecision(3)} %`) };
    const star = { type: 'scatter', mode: 'markers', x: [Math.log10(Math.max(numbers.n_s, 0.5) / numbers.n)], y: [Math.log10(Math.max(numbers.n_q, 0.5) / numbers.n)],
      hoverinfo: 'skip', marker: { symbol: 'star', size: 15, color: ORANGE, line: { width: 1.5, color: 'black' } } };
    const custom = data.z.map((row, j) => row.map((_, i) => [data.threshold_s[i], data.threshold_q[j]]));
    return draw('surface', [{ type: 'heatmap', x: data.x, y: data.y, z: data.z, customdata: custom, colorscale: 'Cividis', zmin: 0,
      colorbar: { thickness: 10, title: { text: 'F̂' } }, hovertemplate: 'p_s ≥ %{customdata[0]:.4g}<br>p_q ≥ %{customdata[1]:.4g}<br>F̂ %{z:.3f}<br>click to take<extra></extra>' }, star],
    { xaxis: { ...axis, title: { text: 'flagged by s' } }, yaxis: { ...axis, title: { text: 'flagged by q' } } }, () => surface(data, numbers));
  }

  function timeline(data, dates) {
    const width = (data.high - data.low) / data.counts.length;
    const x = data.counts.map((_, i) => data.low + (i + 0.5) * width);
    return draw('timeline', [{ type: 'bar', x: dates ? x.map((one) => new Date(1000 * one).toISOString()) : x, y: data.counts, marker: { color: BLUE },
      width: dates ? 1000 * width : width, hovertemplate: '%{y} events<br>%{x}<extra></extra>' }],
    { xaxis: { type: dates ? 'date' : 'linear' }, yaxis: { title: { text: 'events' }, fixedrange: true, rangemode: 'tozero' }, margin: { l: 50, r: 10, t: 4, b: 28 }, dragmode: 'zoom', bargap: 0 },
    () => timeline(data, dates));
  }

  function curve(scan, numbers) {
    const points = [...scan].sort((a, b) => a.recall_hat - b.recall_hat);
    const data = [{ type: 'scatter', mode: 'lines+markers', x: points.map((one) => one.recall_hat), y: points.map((one) => one.precision_hat), line: { color: BLUE },
      text: points.map((one) => `β = ${one.beta.toPrecision(3)}`), hovertemplate: '%{text}<extra></extra>' }];
    if (points.length && points[0].precision !== null) data.push({ type: 'scatter', mode: 'lines+markers', name: 'by the labels', line: { color: RED, dash: 'dash' },
      x: points.map((one) => one.recall), y: points.map((one) => one.precision) });
    data.push({ type: 'scatter', mode: 'markers', x: [numbers.recall_hat], y: [numbers.precision_hat], name: 'now', marker: { symbol: 'star', size: 15, color: ORANGE, line: { width: 1, color: 'black' } } });
    return draw('curve', data, { xaxis: { title: { text: 'R̂' }, rangemode: 'tozero' }, yaxis: { title: { text: 'P̂' }, range: [0, 1.03] } }, () => curve(scan, numbers));
  }

  function scanned(scan, numbers) {
    const shapes = numbers.beta > 0 && Number.isFinite(numbers.beta) ? [{ type: 'line', x0: numbers.beta, x1: numbers.beta, y0: 0, y1: 1, yref: 'paper', line: { color: GREY, dash: 'dot' } }] : [];
    return draw('scan', [{ type: 'scatter', mode: 'lines', x: scan.map((one) => one.beta), y: scan.map((one) => one.fbeta_hat), line: { color: BLUE } }],
      { xaxis: { type: 'log', title: { text: 'β' }, tickvals: [0.01, 0.1, 1, 10, 100] }, yaxis: { title: { text: 'F̂' }, rangemode: 'tozero' }, shapes }, () => scanned(scan, numbers));
  }

  function chance(values, observed) {
    return draw('null', [{ type: 'histogram', x: values, nbinsx: 40, marker: { color: GREY } }],
      { xaxis: { title: { text: 'joint rows of shuffled pairings; line: the data' }, range: [0, 1.1 * Math.max(1, observed, ...values)] }, yaxis: { title: { text: 'pairings' } },
        shapes: [{ type: 'line', x0: observed, x1: observed, y0: 0, y1: 1, yref: 'paper', line: { color: RED, width: 3 } }] }, () => chance(values, observed));
  }

  function history(lines) {
    return draw('history', lines.map((one, i) => ({ type: 'scatter', mode: 'lines', x: one.epoch, y: one.fbeta_hat, name: `seed ${one.seed}`, line: { color: LANES[i % LANES.length], width: one.kept ? 4 : 1.5 } })),
      { xaxis: { title: { text: 'epoch' } }, yaxis: { title: { text: 'F̂ on held-out pairs' } } }, () => history(lines));
  }

  // One input of one pair; with `attribution`, the contribution of each point to the network's output.
  function input(id, data) {
    const place = document.getElementById(id);
    const again = () => input(id, data);
    const scale = { colorscale: [[0, BLUE], [0.5, night.matches ? '#39424c' : '#dfe3e8'], [1, RED]], cmid: 0 };
    if (data.kind === 'bars') {
      place.style.height = `${60 + 22 * data.names.length}px`;
      return draw(id, [{ type: 'bar', orientation: 'h', y: data.names.map((_, i) => i), x: data.deviations, marker: data.attribution ? { color: data.attribution, ...scale, showscale: data.names.length > 5, colorbar: { thickness: 8, nticks: 3, title: { text: 'contribution' } } } : { color: BLUE },
        text: data.values.map((one) => one.toPrecision(4)), customdata: data.attribution || data.values.map(() => 0), hovertemplate: `%{text}, %{x:+.1f} deviations${data.attribution ? ', contribution %{customdata:.3g}' : ''}<extra></extra>` }],
      { xaxis: { title: { text: 'standard deviations from normal' } }, yaxis: { tickvals: data.names.map((_, i) => i), ticktext: data.names.map((one) => text(one.length > 24 ? one.slice(0, 23) + '…' : one)), autorange: 'reversed' } }, again);
    }
    if (data.kind === 'image') {
      place.style.height = '300px';
      const shown = data.images.map((z, i) => ({ type: 'heatmap', z, colorscale: 'Greys', xaxis: `x${i + 1}`, yaxis: `y${i + 1}`, showscale: i === 0, colorbar: { thickness: 8 } }));
      if (data.attribution) data.attribution.forEach((z, i) => shown.push({ type: 'heatmap', z, colorscale: scale.colorscale, zmid: 0, xaxis: `x${data.images.length + i + 1}`, yaxis: `y${data.images.length + i + 1}`, showscale: false }));
      const more = { grid: { rows: 1, columns: shown.length, pattern: 'independent' } };
      shown.forEach((_, i) => {
        const number = i === 0 ? '' : i + 1;
        more[`xaxis${number}`] = { visible: false };
        more[`yaxis${number}`] = { autorange: 'reversed', visible: false, scaleanchor: `x${number}` };
      });
      return draw(id, shown, more, again);
    }
    const count = data.lanes.length, traces = [], more = { annotations: [] };
    place.style.height = `${50 + 110 * count}px`;
    data.lanes.forEach((lane, i) => {
      const number = i === 0 ? '' : i + 1, axis = `y${number}`, x = lane.y.map((_, k) => k * data.step);
      const base = { type: 'scatter', mode: 'lines', x, yaxis: axis };
      traces.push({ ...base, y: lane.low, line: { width: 0 }, hoverinfo: 'skip' },
        { ...base, y: lane.high, line: { width: 0 }, fill: 'tonexty', fillcolor: colours().band, hoverinfo: 'skip' });
      const mine = lane.attribution;
      const line = { ...base, y: lane.y, line: { color: LANES[i % LANES.length], width: 1.5 }, hovertemplate: '%{y:.4g}<extra></extra>' };
      traces.push(!mine ? line : { ...line, mode: 'lines+markers', marker: { color: mine, ...scale, size: 6 },
        text: mine.map((one) => one.toPrecision(2)), hovertemplate: '%{y:.4g}, contribution %{text}<extra></extra>' });
      const top = 1 - i / count, bottom = 1 - (i + 0.78) / count;
      more[`yaxis${number}`] = { domain: [Math.max(bottom, 0), top - 0.04 / count], nticks: 4 };
      more.annotations.push({ text: text(lane.name), x: 0, xref: 'paper', xanchor: 'left', y: top, yref: 'paper', yanchor: 'bottom', showarrow: false, font: { size: 11 } });
    });
    return draw(id, traces, { ...more, xaxis: { title: { text: 'sample' }, anchor: `y${count > 1 ? count : ''}` }, margin: { l: 50, r: 10, t: 20, b: 36 } }, again);
  }

  night.addEventListener('change', () => known.forEach((repeat) => repeat()));
  return { surface, timeline, curve, scanned, chance, history, input };
})();
