// What if: the columns of a followed row to be moved, answered by the tree in the page.

const MOST_SLIDERS = 12;
const SLIDER_STEPS = 200;

class WhatIf {
  constructor(app) {
    this.app = app;
    this.box = byId("what-if");
    this.button = h("button", { type: "button", class: "quiet", id: "what-if-open", "aria-expanded": "false", "aria-controls": "what-if", onclick: () => (this.box.hidden ? this.start() : this.close()) }, "What if…");
    this.columns = app.reader ? whatIfColumns(app.summary) : [];
    if (this.columns.length) byId("row-type").after(this.button);
  }

  /** Begin with the followed row, else with the first listed one, else with a usual one. */
  start() {
    const { app } = this;
    if (!app.tree.data.complete) {
      this.open(h("p", { class: "message" }, "This tree has too many weights for a page that answers by itself."));
      return;
    }
    if (!app.row && app.summary.samples.length) app.rows.pick(0);
    this.begin = app.row ? app.row.x : Float64Array.from(app.summary.features.typical);
    this.name = app.row?.sample !== null && app.row ? app.summary.samples[app.row.sample].name : "this row";
    this.x = Float64Array.from(this.begin);
    this.answer = h("p", { class: "what-if-answer", id: "what-if-answer", role: "status" });
    this.open(
      h("div", { class: "panel-title" }, h("h3", {}, `What if ${short(this.name, 40)} were different?`), h("button", { type: "button", class: "quiet small", id: "what-if-reset", onclick: () => this.start() }, "Reset")),
      h("div", { class: "what-if-columns" }, this.columns.map((column) => this.control(column))), this.answer);
    this.say();
  }

  open(...parts) {
    this.box.hidden = false;
    this.button.setAttribute("aria-expanded", "true");
    this.box.replaceChildren(...parts);
  }

  close() {
    this.box.hidden = true;
    this.button.setAttribute("aria-expanded", "false");
  }

  control(column) {
    const shown = h("output", { class: "number" });
    const change = (event) => {
      column.write(this.x, event.target.value);
      shown.textContent = column.say(this.x);
      this.move();
    };
    shown.textContent = column.say(this.x);
    return h("label", { class: "what-if-column", "data-column": column.name }, h("span", { class: "name", title: column.name }, short(tidy(column.name), 40)), column.input(this.x, change), shown);
  }

  /** Follow the changed row through the tree. */
  move() {
    const { app } = this;
    const path = app.tree.walk(this.x);
    app.follow({ sample: null, x: this.x, path, prediction: app.tree.predict(path.nodes.at(-1), this.x) });
    this.say();
  }

  say() {
    const { tree, summary } = this.app;
    const [before, after] = [this.begin, this.x].map((x) => predictionText(summary, tree.predict(tree.walk(x).nodes.at(-1), x)));
    this.answer.replaceChildren("Predicted ", h("b", {}, after), after === before ? " as it is" : ` instead of ${before}`, ".");
  }
}

/** The columns with a slider or a list, the most important first: {name, input(x, change), write(x, text), say(x)}. */
function whatIfColumns(summary) {
  const { low, high, names } = summary.features;
  if (!low) return [];
  const ranked = (summary.models[0].importances ?? []).map(({ feature }) => feature);
  if (!summary.columns) return ranked.filter((j) => low[j] < high[j]).slice(0, MOST_SLIDERS).map((j) => numberControl(summary, names[j], j, null));
  const reader = new TableReader(summary.columns);
  const ownerOf = (feature) => reader.starts.findLastIndex((start) => start <= feature);
  const owners = [...new Set(ranked.map(ownerOf))].slice(0, MOST_SLIDERS);
  return owners.map((place) => columnControl(summary, summary.columns[place], reader.starts[place])).filter(Boolean);
}

function columnControl(summary, column, start) {
  if (column.kind === "text") return textControl(column, start);
  if (column.kind === "date") return dateControl(summary, column, start);
  if (summary.features.low[start] === summary.features.high[start]) return null;
  return numberControl(summary, column.name, start, column.indicator ? start + 1 : null);
}

/** `indicator`: the feature that is 1 where the value is missing. */
function numberControl({ features }, name, j, indicator) {
  const [low, high] = [features.low[j], features.high[j]];
  const step = features.whole[j] ? 1 : Number(((high - low) / SLIDER_STEPS).toPrecision(1));
  return {
    name,
    input: (x, oninput) => h("input", { type: "range", min: Math.min(low, x[j]), max: Math.max(high, x[j]), step: features.whole[j] ? step : "any", value: x[j], "aria-label": name, oninput }),
    write: (x, text) => {
      const value = Number(text);
      x[j] = features.whole[j] ? value : Number((Math.round(value / step) * step).toPrecision(12));
      if (indicator !== null) x[indicator] = 0;
    },
    say: (x) => (indicator !== null && x[indicator] === 1 ? "missing" : brief(x[j], 4)),
  };
}

function textControl(column, start) {
  const choices = [...column.categories, ...(column.other ? [OTHER_NAME] : []), ...(column.missing ? [MISSING_NAME] : [])];
  const at = (x) => choices.findIndex((_, i) => x[start + i] === 1);
  return {
    name: column.name,
    input: (x, onchange) => h("select", { "aria-label": column.name, onchange },
      at(x) < 0 ? h("option", { value: "", selected: true }, "…") : null, choices.map((choice, i) => h("option", { value: i, selected: i === at(x) }, short(choice, 40)))),
    write: (x, text) => choices.forEach((_, i) => {
      x[start + i] = text !== "" && i === Number(text) ? 1 : 0;
    }),
    say: () => "",
  };
}

function dateControl({ features }, column, start) {
  const place = start + column.parts.indexOf("days since 1970");
  if (place < start) return null;
  return {
    name: column.name,
    input: (x, onchange) => h("input", { type: "date", min: isoDate(Math.floor(features.low[place])), max: isoDate(Math.ceil(features.high[place])), value: isoDate(Math.floor(x[place])), "aria-label": column.name, onchange }),
    write: (x, text) => {
      if (parseDate(text, null) !== null) x.set(ENCODERS.date(column, text).features, start);
    },
    say: () => "",
  };
}
