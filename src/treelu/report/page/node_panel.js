// The selected node: what it asks, the rows it splits, its weights, the rows that pass it.

const BARS = 12;
const LISTED_ROWS = 12;

class NodePanel {
  constructor(app) {
    Object.assign(this, { app, element: byId("panel"), measure: "effect", bars: BARS, node: null });
  }

  show(node) {
    if (node !== this.node) this.bars = BARS;
    this.node = node;
    const { tree } = this.app;
    const parts = tree.isLeaf(node) ? this.leafParts(node) : this.splitParts(node);
    const scrolled = this.element.scrollTop;
    this.element.replaceChildren(this.heading(node), ...parts.filter(Boolean));
    this.element.scrollTop = scrolled;
  }

  heading(node) {
    const { app } = this;
    const { tree } = app;
    const facts = [`depth ${tree.depth[node]}`];
    if (tree.rowsAt(node) !== null) facts.push(plural(tree.rowsAt(node), "row"));
    if (tree.weightAt(node) !== null) facts.push(`weight ${brief(tree.weightAt(node))}`);
    if (!tree.isLeaf(node)) {
      const { terms, rest } = tree.terms(node, Infinity);
      facts.push(plural(terms.length + rest, "term"));
    }
    const parent = tree.parent[node];
    return h("header", {},
      h("div", { class: "panel-title" }, h("h3", {}, nodeName(tree, node)),
        parent >= 0 ? h("button", { type: "button", class: "quiet small", onclick: () => app.view.select(parent) }, "↑ Parent") : null),
      h("p", { class: "muted" }, facts.join(" · ")));
  }

  // Splits

  splitParts(node) {
    return [this.formula(node), this.way(node), this.sides(node), this.histogram(node), this.gallery(node), this.weightChart(node), this.rowList(node)];
  }

  formula(node) {
    const { tree } = this.app;
    if (tree.weights.row(node).total <= 1 || tree.data.sets[node]) return h("p", { class: "formula" }, tree.signs ? "" : "Yes where ", h("b", {}, tree.question(node)));
    const { terms, rest } = tree.terms(node, 6);
    const words = terms.map(({ sign, factor, name }, i) => [`${i || sign === MINUS ? `${sign}\u00a0` : ""}${factor.replaceAll(" ", "\u00a0")}`, h("b", {}, name), " "]);
    return h("p", { class: "formula" }, tree.signs ? "" : "Yes where ", words, `${rest ? `+ ${count(rest)} more ` : ""}${tree.bound(node).replace(" ", "\u00a0")}`);
  }

  /** The decisions that lead to the node; on the path of a followed row with its scores. */
  way(node) {
    const { app } = this;
    const { tree, row } = app;
    const path = row && row.path.nodes.includes(node) ? row.path.nodes : [...tree.ancestors(node), node];
    if (path.length < 2) return null;
    const steps = path.slice(0, -1).map((at, i) => {
      const side = tree.children[at].indexOf(path[i + 1]);
      const value = path === row?.path.nodes ? tree.reading(at, row.path.scores[i]) : null;
      return h("li", { class: at === node ? "here" : null },
        h("button", { type: "button", class: "link", onclick: () => app.view.select(at) }, tree.question(at)),
        h("span", { class: "number muted" }, value),
        h("span", { class: "turn" }, tree.sideName(at, side)));
    });
    const last = path[path.length - 1];
    if (tree.isLeaf(last)) {
      steps.push(h("li", { class: last === node ? "here" : null },
        h("button", { type: "button", class: "link", onclick: () => app.view.select(last) }, nodeName(tree, last)),
        h("span", {}), h("span", { class: "turn" })));
    }
    const title = path === row?.path.nodes ? "Path of the row" : "Path to here";
    return h("details", { class: "way", open: tree.isLeaf(node) || path === row?.path.nodes }, h("summary", {}, title), h("ol", {}, steps));
  }

  sides(node) {
    const { app } = this;
    const { tree } = app;
    if (!tree.data.n) return null;
    return h("ul", { class: "sides" }, tree.children[node].map((child, side) => h("li", {},
      h("button", { type: "button", class: "link", onclick: () => app.view.select(child) }, tree.signs ? tree.sideName(node, side) : side ? "Yes" : "No"),
      nodeStack(app.summary, tree, child),
      h("span", { class: "number" }, count(tree.rowsAt(child))))));
  }

  histogram(node) {
    const { summary, tree, row } = this.app;
    const data = tree.data.histograms?.[node];
    if (!data) return null;
    const at = row ? row.path.nodes.indexOf(node) : -1;
    const mark = at >= 0 ? row.path.scores[at] : null;
    // A split that asks whether one feature is at least so much is read on that feature's own scale.
    const { features, values, total } = tree.weights.row(node);
    const single = total === 1 && values[0] > 0;
    const read = single ? (v) => (v - tree.data.biases[node]) / values[0] : (v) => v;
    const title = single ? `Rows by ${tree.names[features[0]]}` : "Rows by score";
    return figure(title, null, null, (width) => histogramChart(summary, data, mark, read, [tree.sideName(node, 0), tree.sideName(node, 1)], width));
  }

  weightChart(node) {
    const { tree, row, summary } = this.app;
    const weights = tree.weights.row(node);
    if (weights.total < 2 || tree.data.sets[node]) return null;
    const onWay = row && row.path.nodes.includes(node) && row.x;
    const choices = { effect: "Effect", weight: "Weight", ...(onWay ? { row: "This row" } : {}) };
    if (summary.n_rows === null) delete choices.effect;
    const measure = choices[this.measure] ? this.measure : Object.keys(choices)[0];
    return h("section", { class: "weights" },
      h("div", { class: "panel-title" }, h("h3", {}, "Weights"), this.measureButtons(choices, measure)),
      h("p", { class: "muted" }, this.measureText(measure, node)),
      this.weightBars(weights, measure));
  }

  measureButtons(choices, measure) {
    return h("div", { class: "segmented small", role: "group", "aria-label": "What the bars show" }, Object.entries(choices).map(([key, name]) =>
      h("button", {
        type: "button", "aria-pressed": String(key === measure),
        onclick: () => {
          this.measure = key;
          this.show(this.node);
        },
      }, name)));
  }

  measureText(measure, node) {
    const { tree } = this.app;
    const { features, total } = tree.weights.row(node);
    const part = features.length < total ? ` The page carries the ${count(features.length)} strongest of ${count(total)}.` : "";
    const texts = {
      effect: "Weight × spread of the feature (its standard deviation): how much it moves the score.",
      weight: "As in the formula, on the feature's own scale; strongest effect first.",
      row: `Weight × value of this row; with the bias ${withSign(tree.data.biases[node])} they add up to its score.`,
    };
    return texts[measure] + part;
  }

  weightBars({ features, values }, measure) {
    const { scale, names } = this.app.summary.features;
    const { row } = this.app;
    let items = Array.from(features, (feature, i) => {
      const factor = measure === "effect" ? scale[feature] : measure === "row" ? row.x[feature] : 1;
      return { feature, value: values[i] * factor, name: names[feature], short: this.app.summary.features.short[feature] };
    });
    if (measure === "row") items = items.filter((item) => item.value !== 0).sort((a, b) => Math.abs(b.value) - Math.abs(a.value));
    const shown = items.slice(0, this.bars).map((item) => ({
      ...item, text: withSign(item.value), colour: item.value < 0 ? "var(--negative)" : "var(--positive)",
    }));
    const more = items.length > this.bars
      ? h("button", {
        type: "button", class: "quiet small",
        onclick: () => {
          this.bars += 40;
          this.show(this.node);
        },
      }, `Show more of ${count(items.length)}`)
      : null;
    return h("div", {}, barList(shown), more);
  }

  /** Drawings of the strongest features, where there are any. */
  gallery(node) {
    const drawn = featureDrawings(this.app.summary, this.app.tree, node, 6)
      .map(({ svg, name, value }) => featureDrawing(svg, name, name, value, withSign(value)));
    if (!drawn.length) return null;
    return h("section", {}, h("h3", {}, "Strongest substructures"),
      h("p", { class: "muted" }, "A molecule that has one with + is pushed to the lower branch, with − to the upper one."),
      h("div", { class: "gallery" }, drawn));
  }

  // Leaves

  leafParts(node) {
    return [this.leafFormula(node), this.prediction(node), this.way(node), this.observed(node), this.leafWeights(node), this.rowList(node)];
  }

  /** The formula of a linear leaf and the range of its predictions. */
  leafFormula(node) {
    const { summary, tree } = this.app;
    if (!tree.leafWeights) return null;
    const ends = tree.leaf(node).range;
    const say = (v) => (summary.classes ? percent(v) : valueText(summary, v));
    const place = summary.classes ? summary.positive : 0;
    const what = summary.classes ? `the probability of ${named(summary, summary.classes[place])}` : "the prediction";
    const formula = tree.data.values[0].length === 1
      ? h("p", { class: "formula" }, summary.classes ? `log-odds of ${summary.classes[place]} = ` : `${short(summary.target, 30)} = `, tree.leafFormula(node, 6)) : null;
    return h("section", {}, h("h3", {}, "Formula of this leaf"), formula,
      ends ? h("p", { class: "muted" }, `For the rows here, ${what} goes from ${say(ends[0][place])} to ${say(ends[1][place])}.`) : null);
  }

  prediction(node) {
    const { summary, tree, row } = this.app;
    const own = row && row.path.nodes.includes(node) && row.x && tree.leafWeights && tree.data.complete;
    const prediction = own ? tree.predict(node, row.x) : tree.leaf(node).prediction;
    if (!prediction) return h("p", { class: "formula" }, "A linear leaf that no row reached.");
    const title = own ? "Prediction for this row" : tree.leafWeights ? "Mean prediction over its rows" : "Prediction";
    if (!summary.classes) {
      return h("section", {}, h("h3", {}, title), h("p", { class: "big number" }, prediction.map((v) => valueText(summary, v)).join("; ")));
    }
    const items = prediction.map((p, k) => ({ name: summary.classes[k], value: p, text: percent(p), colour: classColour(k) }))
      .sort((a, b) => b.value - a.value).slice(0, 10);
    return h("section", {}, h("h3", {}, title), barList(items));
  }

  observed(node) {
    const { summary, tree } = this.app;
    const { mix } = tree.data;
    if (!mix || !tree.rowsAt(node)) return null;
    if (!summary.classes) {
      return h("section", {}, h("h3", {}, "Observed"), h("p", { class: "big number" }, valueText(summary, mix[node])),
        h("p", { class: "muted" }, `mean over ${rowCount(summary, tree.rowsAt(node))}`));
    }
    const items = mix[node].map((rows, k) => ({ name: summary.classes[k], value: rows, text: count(rows), colour: classColour(k) }))
      .filter((item) => item.value > 0).sort((a, b) => b.value - a.value).slice(0, 10);
    return h("section", {}, h("h3", {}, "Observed here"), barList(items));
  }

  leafWeights(node) {
    const { tree, summary } = this.app;
    if (!tree.leafWeights) return null;
    const width = tree.data.values[0].length;
    const blocks = [];
    for (let k = 0; k < Math.min(width, 4); k += 1) {
      const row = tree.leafWeights.row((node - tree.nSplits) * width + k);
      const weights = tree.flip && width === 1 ? { ...row, values: row.values.map((value) => -value) } : row;
      const title = width > 1 ? `Weights for ${summary.classes[k]}` : "Weights of the leaf";
      blocks.push(h("section", { class: "weights" }, h("h3", {}, title),
        h("p", { class: "muted" }, `How much each feature moves the result between usual rows (weight × standard deviation).`),
        this.weightBars(weights, summary.n_rows === null ? "weight" : "effect")));
    }
    return h("div", {}, blocks);
  }

  // Rows that pass the node

  rowList(node) {
    const { app } = this;
    const { summary, tree } = app;
    if (!tree.data.paths) return null;
    const here = summary.samples.map((_, i) => i).filter((i) => tree.data.paths[i].nodes.includes(node));
    if (!here.length) return null;
    const shown = Math.min(here.length, LISTED_ROWS);
    return h("section", { class: "passing" }, h("h3", {}, shown < tree.rowsAt(node) ? `Rows here (${count(shown)} of ${count(tree.rowsAt(node))})` : "Rows here"),
      h("ul", { class: summary.samples[here[0]].drawing ? "rows drawn" : "rows" }, here.slice(0, LISTED_ROWS).map((i) => this.rowItem(i))));
  }

  rowItem(i) {
    const { app } = this;
    const sample = app.summary.samples[i];
    const target = targetText(app.summary, sample);
    return h("li", {}, h("button", {
      type: "button", class: "row", title: sample.name, "aria-pressed": String(app.row?.sample === i), onclick: () => app.rows.pick(i),
    },
    sample.drawing ? picture(sample.drawing, sample.name) : null,
    h("span", { class: "name" }, sample.name),
    target === null ? null : h("span", { class: "target" }, targetMark(app.summary, sample), target)));
  }
}

/** The observed target of a listed row as text, or null. */
function targetText(summary, sample) {
  if (sample.target === null) return null;
  return summary.classes ? summary.classes[sample.target] : valueText(summary, sample.target);
}

function targetMark(summary, sample) {
  return summary.classes ? h("i", { class: "swatch", style: { background: classColour(sample.target) } }) : null;
}

/** Rows of a split by score, stacked by class; the split is at 0, `mark` the score of a followed row, `read` what a score is called. */
function histogramChart(summary, { low, width: step, counts }, mark, read, sides, width) {
  const bins = counts[0].length;
  const totals = counts[0].map((_, b) => counts.reduce((sum, rows) => sum + rows[b], 0));
  const most = Math.max(...totals);
  const [left, right] = [Math.min(low, mark ?? low), Math.max(low + bins * step, mark ?? low)];
  const height = 120;
  const x = (v) => 4 + ((v - left) / (right - left)) * (width - 8);
  const y = (n) => (n / most) * (height - 34);
  const bars = [];
  for (let b = 0; b < bins; b += 1) {
    let base = height - 20;
    counts.forEach((rows, k) => {
      if (!rows[b]) return;
      const tall = y(rows[b]);
      base -= tall;
      const name = counts.length > 1 ? `${summary.classes[k]}: ` : "";
      const colour = counts.length > 1 ? classColour(k) : "var(--ink-soft)";
      bars.push(s("rect", {
        x: x(low + b * step) + 0.5, y: base, width: Math.max(1, x(low + step) - x(low) - 1), height: tall, style: { fill: colour },
        ...hovering(`${name}${plural(rows[b], "row")}, ${brief(read(low + b * step))} to ${brief(read(low + (b + 1) * step))}`),
      }));
    });
  }
  const marker = mark === null ? null : s("path", { class: "marker", d: `M${x(mark)} ${height - 20}l-5 -9h10z` });
  return s("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": "Histogram of the rows' scores at this split" },
    s("line", { class: "axis", x1: 0, x2: width, y1: height - 20, y2: height - 20 }),
    bars,
    s("line", { class: "threshold", x1: x(0), x2: x(0), y1: 2, y2: height - 16 }),
    s("text", { class: "tick", x: x(0), y: height - 4, "text-anchor": "middle" }, brief(read(0))),
    x(0) > 80 ? s("text", { class: "tick", x: x(0) - 26, y: height - 4, "text-anchor": "end" }, `← ${sides[0]}`) : null,
    x(0) < width - 80 ? s("text", { class: "tick", x: x(0) + 26, y: height - 4 }, `${sides[1]} →`) : null,
    marker);
}
