"""The CSS of the pages and of the explorer, and the script that draws the figures of a page."""

from __future__ import annotations

__all__ = ["COMMON_STYLE", "FIGURE_SCRIPT", "PAGE_STYLE"]

#: Light and dark colours, tables and small drawings, for pages and for the explorer.
COMMON_STYLE = """
:root { --ink: #1d2126; --soft: #5b6470; --paper: #ffffff; --card: #f5f7f9; --line: #d5dae0;
  --blue: #0072B2; --orange: #b26e00; --red: #D55E00; --green: #00795a; --band: #b9c4cf; color-scheme: light; }
@media (prefers-color-scheme: dark) { :root { --ink: #e7eaee; --soft: #a3adb8; --paper: #14171b;
  --card: #1e2329; --line: #39424c; --blue: #56B4E9; --orange: #E69F00; --red: #ff8a4c; --green: #2fc79b;
  --band: #4a5663; color-scheme: dark; } }
@media print { :root { --ink: #000; --soft: #444; --paper: #fff; --card: #fff; --line: #bbb; --blue: #0072B2;
  --orange: #b26e00; --red: #D55E00; --green: #00795a; --band: #ccc; color-scheme: light; } }
* { box-sizing: border-box; }
body { font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); margin: 0; }
h1 { font-size: 1.5rem; line-height: 1.2; margin: 0 0 .6rem; } h2 { font-size: 1.15rem; margin: 0 0 .4rem; }
p { margin: .3rem 0 .7rem; } .aside, .note { color: var(--soft); font-size: .88rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; margin: .5rem 0; font-variant-numeric: tabular-nums; font-size: .94rem; }
th, td { padding: .28rem .8rem .28rem 0; border-bottom: 1px solid var(--line); text-align: right;
  vertical-align: top; }
th:first-child, td:first-child { text-align: left; }
.left td, .left th { text-align: left; }
.verdict { font-size: 1.12rem; border-left: 5px solid var(--blue); padding: .2rem 0 .2rem .9rem; margin: 0 0 1rem; }
.verdict.doubt { border-color: var(--orange); } .verdict.none { border-color: var(--soft); }
.gallery { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 290px), 1fr)); gap: .8rem; }
.event { background: var(--card); border: 1px solid var(--line); border-radius: 8px; padding: .6rem .7rem;
  break-inside: avoid; min-width: 0; }
.event h3 { font-size: .92rem; margin: 0 0 .1rem; overflow-wrap: anywhere; }
.event .facts { font-size: .82rem; color: var(--soft); margin: 0 0 .3rem; overflow-wrap: anywhere; }
.event .side { font-size: .76rem; color: var(--soft); margin: .25rem 0 0; }
.sides.beside { display: grid; grid-template-columns: 1fr 1fr; gap: .5rem; }
svg.shape { width: 100%; height: auto; display: block; } svg.shape text { font-size: 10.5px; fill: var(--soft); }
svg.shape .line { fill: none; stroke: var(--blue); stroke-width: 1.4; }
svg.shape .normal { fill: var(--band); opacity: .55; } svg.shape .bar { fill: var(--blue); }
.findings { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 500px), 1fr)); gap: .8rem; }
.finding h3 { font-size: 1rem; } .tag { font-size: .8rem; font-weight: 600; color: var(--soft); white-space: normal; }
.tag.yes { color: var(--red); }
.evidence { display: grid; grid-template-columns: repeat(3, minmax(0, 1fr)); gap: .2rem .6rem; margin: .3rem 0 .4rem; }
.evidence dt { font-size: .74rem; color: var(--soft); } .evidence dd { margin: 0; font-size: .88rem;
  font-variant-numeric: tabular-nums; }
.apart { font-size: .84rem; margin: .15rem 0; overflow-wrap: anywhere; } .apart b { margin-right: .25rem; }
.examples { display: grid; gap: .4rem .8rem; margin-top: .3rem; }
.examples .sides { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 210px), 1fr)); gap: 0 .6rem; }
.examples.images { grid-template-columns: repeat(auto-fit, minmax(min(100%, 150px), 1fr)); }
.examples.images .sides { grid-template-columns: 1fr 1fr; }
svg.shape.when { height: 26px; margin-top: .4rem; } .ends { display: flex; justify-content: space-between; }
svg.shape .axis { stroke: var(--soft); stroke-width: 1; } svg.shape image { image-rendering: pixelated; }
"""

#: Layout of a page: headings, boxes of numbers, figures, printing.
PAGE_STYLE = """
body { max-width: 1120px; margin: 0 auto; padding: 1.4rem 1rem 3rem; }
nav { display: flex; flex-wrap: wrap; gap: .2rem .9rem; font-size: .88rem; margin-bottom: .6rem; }
nav a { color: var(--blue); text-decoration: none; } nav a:hover { text-decoration: underline; }
section { margin: 1.9rem 0 0; padding-top: .8rem; border-top: 1px solid var(--line); }
.numbers { display: grid; grid-template-columns: repeat(auto-fit, minmax(150px, 1fr)); gap: .7rem; }
.numbers div { background: var(--card); border: 1px solid var(--line); border-radius: 8px; padding: .5rem .7rem; }
.numbers b { display: block; font-size: 1.35rem; line-height: 1.3; } .numbers span { font-size: .82rem; color: var(--soft); }
.figure { width: 100%; min-height: 430px; } pre { overflow-x: auto; background: var(--card); padding: .7rem;
  border: 1px solid var(--line); border-radius: 8px; font-size: .84rem; white-space: pre-wrap; overflow-wrap: anywhere; }
td { overflow-wrap: break-word; } .left td, td:first-child { overflow-wrap: anywhere; min-width: 5.5rem; }
#findings th, #findings td { white-space: nowrap; min-width: 0; } #findings :is(th, td):last-child { text-align: left; }
@media print { nav { display: none; } body { font-size: 12px; } section { break-inside: avoid-page; }
  #events, #disagreements, #cards { break-inside: auto; } }
"""

#: Draws every figure of the page in light or dark colours, and in light ones for printing.
FIGURE_SCRIPT = """
(() => {
  const night = window.matchMedia('(prefers-color-scheme: dark)');
  const colours = (dark) => {
    const [ink, line] = dark ? ['#e7eaee', '#39424c'] : ['#1d2126', '#dfe3e8'];
    return { ink, line };
  };
  // On narrow screens every second tick is left out.
  const thinned = (axis, width) => {
    const texts = axis.ticktext || [];
    const longest = (text) => Math.max(...text.split('<br>').map((line) => line.length));
    if (texts.length < 4 || 7 * texts.reduce((sum, text) => sum + longest(text), 0) < 0.5 * width) return axis;
    const kept = (_, i) => (texts.length - 1 - i) % 2 === 0;
    return { ...axis, ticktext: texts.filter(kept), tickvals: axis.tickvals.filter(kept) };
  };
  const themed = (layout, dark, width) => {
    const { ink, line } = colours(dark);
    const full = { ...layout, paper_bgcolor: 'rgba(0,0,0,0)', plot_bgcolor: 'rgba(0,0,0,0)' };
    full.font = { ...(layout.font || {}), color: ink, family: 'system-ui, sans-serif' };
    for (const name of Object.keys(full).filter((key) => /^[xy]axis\\d*$/.test(key))) {
      const axis = name[0] === 'x' ? thinned(full[name], width) : full[name];
      full[name] = { ...axis, gridcolor: line, linecolor: line, zeroline: false, tickcolor: line };
    }
    return full;
  };
  const drawn = [];
  const draw = (one, dark) => Plotly.react(one.place, one.data, themed(one.layout, dark, one.place.clientWidth),
    { displaylogo: false, responsive: true, displayModeBar: 'hover' });
  for (const source of document.querySelectorAll('script[data-figure]')) {
    const { data, layout } = JSON.parse(source.textContent);
    const one = { place: document.getElementById(source.dataset.figure), data, layout };
    one.place.style.minHeight = (layout.height || 430) + 'px';
    drawn.push(one);
    draw(one, night.matches);
  }
  const all = (dark) => drawn.forEach((one) => draw(one, dark));
  night.addEventListener('change', () => all(night.matches));
  window.addEventListener('beforeprint', () => all(false));
  window.addEventListener('afterprint', () => all(night.matches));
  document.documentElement.dataset.drawn = String(drawn.length);
})();
"""
