'use strict';
// The confidences of both inputs: the first picture, drawn here so that it does not wait for Plotly.

const Scatter = (() => {
  const NORMAL = '#999999', FLAGGED = '#D55E00', DAY = '#0072B2', NIGHT = '#56B4E9';
  const EDGE = { left: 58, right: 10, top: 8, bottom: 44 };
  const NEAR = 8;  // pixels from a point that still mean it
  const night = window.matchMedia('(prefers-color-scheme: dark)');
  const clipped = (p) => Math.min(Math.max(p, 1e-7), 1 - 1e-7);
  const logit = (p) => Math.log10(clipped(p) / (1 - clipped(p)));
  const TICKS = [[1e-6, '10⁻⁶'], [1e-4, '10⁻⁴'], [0.01, '0.01'], [0.1, '0.1'], [0.5, '0.5'], [0.9, '0.9'], [0.99, '0.99'], [1 - 1e-4, '1−10⁻⁴'], [1 - 1e-6, '1−10⁻⁶']]
    .map(([p, text]) => [logit(p), text]);

  let box = null, canvas = null, pen = null, shown = null, ends = null;

  // The picture's pixel of a value on either axis.
  const across = (value) => EDGE.left + (value - ends[0]) / (ends[1] - ends[0]) * (canvas.clientWidth - EDGE.left - EDGE.right);
  const upward = (value) => canvas.clientHeight - EDGE.bottom - (value - ends[0]) / (ends[1] - ends[0]) * (canvas.clientHeight - EDGE.top - EDGE.bottom);

  function begin(opened) {
    box = document.getElementById('scatter');
    canvas = document.createElement('canvas');
    canvas.setAttribute('role', 'img');
    box.replaceChildren(canvas);
    pen = canvas.getContext('2d');
    canvas.addEventListener('mousemove', (event) => {
      const found = nearest(event);
      canvas.style.cursor = found === null ? 'default' : 'pointer';
      canvas.title = found === null ? '' : `p_s ${shown.points.p_s[found].toPrecision(3)}, p_q ${shown.points.p_q[found].toPrecision(3)}; click to open`;
    });
    canvas.addEventListener('click', (event) => {
      const found = nearest(event);
      if (found !== null) opened(shown.points.pair[found]);
    });
    new ResizeObserver(paint).observe(box);
    night.addEventListener('change', paint);
  }

  // `own`: the rule of the model is shown, which knows what it flags; `lines`: whether thresholds can be drawn.
  function draw(points, t_s, t_q, own, lines) {
    if (!ends) {
      const reach = (list, pick, first) => list.reduce((a, b) => pick(a, b), first);
      ends = [Math.min(reach(points.x, Math.min, 0), reach(points.y, Math.min, 0)) - 0.3, Math.max(reach(points.x, Math.max, 0), reach(points.y, Math.max, 0)) + 0.3];
    }
    shown = { points, own, t_s: lines ? t_s : Infinity, t_q: lines ? t_q : Infinity };
    paint();
  }

  function nearest(event) {
    if (!shown) return null;
    const { x, y } = shown.points;
    let best = null, least = NEAR * NEAR;
    for (let i = 0; i < x.length; i += 1) {
      const far = (across(x[i]) - event.offsetX) ** 2 + (upward(y[i]) - event.offsetY) ** 2;
      if (far <= least) [best, least] = [i, far];
    }
    return best;
  }

  function paint() {
    if (!shown || !box.clientWidth) return;
    const scale = window.devicePixelRatio || 1, width = box.clientWidth, height = box.clientHeight;
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
    canvas.width = Math.round(scale * width);
    canvas.height = Math.round(scale * height);
    pen.setTransform(scale, 0, 0, scale, 0, 0);
    pen.clearRect(0, 0, width, height);
    axes(width, height);
    const { points, own, t_s, t_q } = shown;
    let flagged = 0;
    pen.globalAlpha = 0.6;
    for (const inside of [false, true]) {
      pen.fillStyle = inside ? FLAGGED : NORMAL;
      for (let i = 0; i < points.x.length; i += 1) {
        if ((own ? points.flag[i] : points.p_s[i] >= t_s && points.p_q[i] >= t_q) !== inside) continue;
        mark(across(points.x[i]), upward(points.y[i]), inside);
        flagged += inside;
      }
    }
    pen.globalAlpha = 1;
    thresholds(width, height);
    canvas.setAttribute('aria-label', `p_q against p_s of ${points.x.length} pairs, ${flagged} of them flagged`);
  }

  function mark(x, y, diamond) {  // two shapes, for those who do not see the colours
    pen.beginPath();
    if (diamond) { pen.moveTo(x, y - 3.6); pen.lineTo(x + 3.6, y); pen.lineTo(x, y + 3.6); pen.lineTo(x - 3.6, y); } else pen.arc(x, y, 2.5, 0, 7);
    pen.fill();
  }

  function axes(width, height) {
    const style = getComputedStyle(document.body);
    pen.font = `12px ${style.fontFamily}`;
    pen.fillStyle = style.color;
    pen.strokeStyle = night.matches ? '#39424c' : '#dfe3e8';
    pen.lineWidth = 1;
    pen.setLineDash([]);
    let free = -Infinity;
    for (const [value, text] of TICKS) {
      if (value < ends[0] || value > ends[1]) continue;
      const x = across(value), y = upward(value), wide = pen.measureText(text).width;
      stroke(x, EDGE.top, x, height - EDGE.bottom);
      stroke(EDGE.left, y, width - EDGE.right, y);
      if (x - wide / 2 > free) {
        written(text, x, height - EDGE.bottom + 16, 'center');
        free = x + wide / 2 + 4;
      }
      written(text, EDGE.left - 6, y + 4, 'right');
    }
    written('p_s', (EDGE.left + width - EDGE.right) / 2, height - 6, 'center');
    pen.save();
    pen.translate(12, (EDGE.top + height - EDGE.bottom) / 2);
    pen.rotate(-Math.PI / 2);
    written('p_q', 0, 0, 'center');
    pen.restore();
  }

  function thresholds(width, height) {
    pen.strokeStyle = night.matches ? NIGHT : DAY;
    pen.lineWidth = 2;
    pen.setLineDash([7, 5]);
    if (Number.isFinite(shown.t_s)) stroke(across(logit(shown.t_s)), EDGE.top, across(logit(shown.t_s)), height - EDGE.bottom);
    if (Number.isFinite(shown.t_q)) stroke(EDGE.left, upward(logit(shown.t_q)), width - EDGE.right, upward(logit(shown.t_q)));
    pen.setLineDash([]);
  }

  function stroke(x0, y0, x1, y1) { pen.beginPath(); pen.moveTo(x0, y0); pen.lineTo(x1, y1); pen.stroke(); }

  function written(text, x, y, align) { pen.textAlign = align; pen.fillText(text, x, y); }

  return { begin, draw };
})();
