// Charts as plain SVG: axes, lines, points, bars.

const CLASS_COLOURS = 8;
const classColour = (k) => `var(--class-${k % CLASS_COLOURS})`;

/** Call `draw(width)` now and whenever the width of `element` changes. */
function responsive(element, draw) {
  let width = 0;
  new ResizeObserver(() => {
    const now = Math.floor(element.clientWidth);
    if (now === width || now === 0) return;
    width = now;
    element.replaceChildren(draw(width));
  }).observe(element);
}

/** A figure with a heading, an optional remark and legend, and a chart that fills its width. */
function figure(title, remark, legend, draw) {
  const canvas = h("div", { class: "canvas" });
  responsive(canvas, draw);
  return h("figure", { class: "chart" },
    h("figcaption", {}, h("h3", {}, title), remark && h("p", {}, remark)),
    legend && legend.length > 1 ? h("ul", { class: "legend" }, legend.map(legendItem)) : null,
    canvas);
}

function legendItem({ name, colour, dash, note }) {
  const line = s("svg", { width: 22, height: 8, "aria-hidden": "true" },
    s("line", { x1: 1, x2: 21, y1: 4, y2: 4, "stroke-width": 2.5, "stroke-dasharray": dash, style: { stroke: colour } }));
  return h("li", {}, line, h("span", {}, name), note && h("span", { class: "muted number" }, note));
}

/** Axes over [x0, x1] × [y0, y1]; `plot` receives the scales and returns the marks. */
function axes({ width, height = 300, x, y, xLabel, yLabel, label, xTicks = null, xFormat = brief, yFormat = brief, plot }) {
  const rows = ticks(y[0], y[1]).map((v) => [v, yFormat(v)]);
  const widest = Math.max(...rows.map(([, text]) => text.length));
  const margin = { top: 10, right: 14, bottom: 40, left: Math.max(50, 26 + 6.5 * widest) }; // large numbers need room
  const [w, t] = [width - margin.left - margin.right, height - margin.top - margin.bottom];
  const scaleX = (v) => margin.left + ((v - x[0]) / (x[1] - x[0])) * w;
  const scaleY = (v) => margin.top + t - ((v - y[0]) / (y[1] - y[0])) * t;
  const grid = rows.map(([v, text]) => [
    s("line", { class: "grid", x1: margin.left, x2: margin.left + w, y1: scaleY(v), y2: scaleY(v) }),
    s("text", { class: "tick", x: margin.left - 8, y: scaleY(v) + 4, "text-anchor": "end" }, text),
  ]);
  const long = Math.max(...ticks(x[0], x[1], 3).map((v) => xFormat(v).length));
  const below = xTicks ? xTicks.map(([v, text]) => s("text", { class: "tick", x: scaleX(v), y: margin.top + t + 18, "text-anchor": "middle" }, text)) : ticks(x[0], x[1], Math.max(2, Math.floor(w / Math.max(56, 24 + 6.5 * long)))).map((v) =>
    s("text", { class: "tick", x: Math.min(scaleX(v), margin.left + w + margin.right - 3.3 * xFormat(v).length), y: margin.top + t + 18, "text-anchor": "middle" }, xFormat(v)));
  return s("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": label },
    grid, below,
    s("line", { class: "axis", x1: margin.left, x2: margin.left + w, y1: margin.top + t, y2: margin.top + t }),
    s("text", { class: "axis-label", x: margin.left + w / 2, y: height - 4, "text-anchor": "middle" }, xLabel),
    s("text", { class: "axis-label", transform: `translate(12 ${margin.top + t / 2}) rotate(-90)`, "text-anchor": "middle" }, yLabel),
    plot(scaleX, scaleY));
}

function line(points, scaleX, scaleY, colour, dash, width = 2.25) {
  const path = points.map(([a, b], i) => `${i ? "L" : "M"}${scaleX(a).toFixed(1)} ${scaleY(b).toFixed(1)}`).join("");
  return s("path", { d: path, fill: "none", "stroke-width": width, "stroke-dasharray": dash, "stroke-linejoin": "round", style: { stroke: colour } });
}

function dot(cx, cy, r, colour, text) {
  return s("circle", { cx, cy, r, class: "dot", style: { fill: colour }, ...hovering(text) });
}

/** Listeners that show `text` beside the pointer. */
function hovering(text) {
  const tooltip = byId("tooltip");
  return {
    onpointerenter: (event) => {
      tooltip.textContent = text;
      tooltip.hidden = false;
      const room = document.documentElement.clientWidth - tooltip.offsetWidth - 8;
      tooltip.style.left = `${Math.max(8, Math.min(event.clientX + 12, room))}px`;
      tooltip.style.top = `${event.clientY + 16}px`;
    },
    onpointerleave: () => {
      tooltip.hidden = true;
    },
  };
}

/** A range that holds all values, with a little room. */
function range(values, room = 0.04) {
  let [low, high] = [Infinity, -Infinity];
  for (const v of values) {
    low = Math.min(low, v);
    high = Math.max(high, v);
  }
  const pad = (high - low || Math.abs(high) || 1) * room;
  return [low - pad, high + pad];
}

/** Bars, one a row, to both sides of 0 where values have both signs: {name, value, text, colour}. */
function barList(items, onpick = null) {
  const most = Math.max(...items.map((item) => Math.abs(item.value)), 1e-300);
  const both = items.some((item) => item.value < 0) && items.some((item) => item.value > 0);
  return h("ol", { class: both ? "bars diverging" : "bars" }, items.map((item) => {
    const share = `${((100 * Math.abs(item.value)) / most).toFixed(1)}%`;
    const side = item.value < 0 ? "left" : "right";
    const name = onpick
      ? h("button", { type: "button", class: "name link", title: item.name, onclick: () => onpick(item) }, item.short ?? item.name)
      : h("span", { class: "name", title: item.name }, item.short ?? item.name);
    return h("li", {}, name,
      h("span", { class: "track" }, h("span", { class: `bar ${side}`, style: { "--share": share, "--colour": item.colour } })),
      h("span", { class: "number" }, item.text));
  }));
}

/** Shares of a whole as one thin stacked bar: [{share, colour, text}]. */
function stack(parts, label) {
  return h("span", { class: "stack", role: "img", "aria-label": label }, parts
    .filter((part) => part.share > 0)
    .map((part) => h("span", { title: part.text, style: { "flex-grow": part.share, background: part.colour } })));
}
