// What a node says: its prediction, its colour, the mix of its rows.

const CARD_LETTERS = 19; // of a class, its probability and the target's name that fit on a card
const STRIP = 20; // height of the histogram on a card

/** The prediction of a leaf as text: {main, side}. */
function leafText(summary, tree, node) {
  const { prediction, range: ends } = tree.leaf(node);
  if (!prediction) return { main: "linear leaf" };
  if (!summary.classes && ends) return { main: `${valueText(summary, ends[0][0])} to ${valueText(summary, ends[1][0])}`, side: `mean ${valueText(summary, prediction[0])}` };
  if (!summary.classes) return { main: prediction.map((v) => valueText(summary, v)).join("; "), side: tree.leafWeights ? "mean" : null };
  const best = decided(summary, prediction);
  return { main: named(summary, summary.classes[best]), side: ends ? `${percent(ends[0][best])} to ${percent(ends[1][best])}` : percent(prediction[best]) };
}

/** The class that a leaf predicts: of two, the positive one from the threshold on. */
function decided(summary, prediction) {
  if (summary.classes.length !== 2 || summary.threshold === 0.5) return bestClass(prediction);
  return prediction[summary.positive] >= summary.threshold ? summary.positive : 1 - summary.positive;
}

/** A class with the target's name: "Survived = 1". */
const named = (summary, label) => `${short(summary.target, 24)} = ${label}`;

const cardLine = (main, side) => h("span", { class: "line" }, h("span", { class: "main" }, main), side && h("span", { class: "side number" }, side));

/** A class with as much of the target's name as fits beside `side` on a card. */
function cardClass(summary, label, side) {
  const room = CARD_LETTERS - label.length - (side?.length ?? 0);
  return room < 4 ? label : `${short(summary.target, room)} = ${label}`;
}

function leafLines(summary, tree, node) {
  const { main: whole, side } = leafText(summary, tree, node);
  const { prediction } = tree.leaf(node);
  const main = summary.classes && prediction ? cardClass(summary, summary.classes[decided(summary, prediction)], side) : whole;
  const formula = tree.leafWeights && (tree.data.values[0].length === 1 ? tree.leafFormula(node, 2) : "a formula for each class");
  return [cardLine(main, side), formula && h("span", { class: "line" }, h("span", { class: "main muted" }, formula))].filter(Boolean);
}

/** A split's question with its numbers, a term a line; its strongest features drawn where there are drawings. */
function splitLines(summary, tree, node) {
  const { total } = tree.weights.row(node);
  const drawn = cardDrawings(summary, tree, node);
  if (drawn.length) return [h("span", { class: "pair" }, drawn.map(({ svg, name, value }) => featureDrawing(svg, name, total > 1 ? `${value < 0 ? MINUS : "+"}${brief(Math.abs(value), 2)}·${name}` : tree.question(node), value)))];
  if (total === 0) return [cardLine(tree.question(node))];
  if (total === 1 || tree.data.sets[node]) {
    const [name, condition] = tree.single(node);
    const shorter = tree.data.sets[node] ? null : tree.terms(node).terms[0].short;
    return [cardLine(shorter ?? name, short(condition, 20))];
  }
  const { terms, rest } = tree.terms(node);
  const lines = terms.map(({ sign, factor, name, short }, i) => h("span", { class: "line" },
    h("span", { class: "factor number" }, `${i || sign === MINUS ? sign : ""} ${factor}`.trimStart()), h("span", { class: "main" }, short ?? name)));
  return [...lines, h("span", { class: "line" }, h("span", { class: "main muted" }, rest ? `+ ${count(rest)} smaller` : ""), h("span", { class: "side number" }, tree.bound(node)))];
}

/** Lines of text on a split's card. */
function splitHeight(tree, node) {
  const { total } = tree.weights.row(node);
  return total < 2 || tree.data.sets[node] ? 1 : tree.terms(node).terms.length + 1;
}

/** How the rows at a split spread over its score, as a strip; the line is where no turns into yes. */
function nodeStrip(tree, node, width) {
  const data = tree.data.histograms?.[node];
  if (!data) return null;
  const bins = data.counts[0].length;
  const totals = data.counts[0].map((_, b) => data.counts.reduce((sum, rows) => sum + rows[b], 0));
  const most = Math.max(1, ...totals);
  const step = width / bins;
  const base = new Array(bins).fill(STRIP);
  const paths = data.counts.map((rows, k) => {
    let path = "";
    rows.forEach((n, b) => {
      if (!n) return;
      const tall = Math.max(0.75, (n / most) * (STRIP - 1));
      base[b] -= tall;
      path += `M${(b * step).toFixed(1)} ${base[b].toFixed(1)}h${(step - 0.5).toFixed(1)}v${tall.toFixed(1)}h-${(step - 0.5).toFixed(1)}z`;
    });
    return path && s("path", { d: path, style: { fill: data.counts.length > 1 ? classColour(k) : "var(--ink-soft)" } });
  }).filter(Boolean);
  const zero = (-data.low / (bins * data.width)) * width;
  return s("svg", { class: "strip", viewBox: `0 0 ${width} ${STRIP}`, width, height: STRIP, "aria-hidden": "true" }, paths,
    s("line", { class: "threshold", x1: zero, x2: zero, y1: 0, y2: STRIP }));
}

/** Drawings of the strongest features of a split: [{svg, name, value}]. */
function featureDrawings(summary, tree, node, most) {
  const { features, values } = tree.weights.row(node);
  const drawn = [];
  for (let i = 0; i < features.length && drawn.length < most; i += 1) {
    const svg = summary.features.drawings[features[i]];
    if (svg) drawn.push({ svg, name: tree.names[features[i]], value: values[i] });
  }
  return drawn;
}

/** The same for a card, which draws its two strongest features or none. */
function cardDrawings(summary, tree, node) {
  const strongest = Array.from(tree.weights.row(node).features.subarray(0, 2));
  return strongest.length && strongest.every((j) => summary.features.drawings[j]) ? featureDrawings(summary, tree, node, 2) : [];
}

function featureDrawing(svg, name, caption, value, side = null) {
  return h("figure", { class: value < 0 ? "negative" : "positive" }, picture(svg, name),
    h("figcaption", {}, h("span", {}, caption), side && h("span", { class: "number" }, side)));
}

const bestClass = (probabilities) => probabilities.indexOf(Math.max(...probabilities));

/** A prediction of the page's model as text. */
function predictionText(summary, prediction) {
  if (!summary.classes) return valueText(summary, prediction[0] ?? prediction);
  const best = decided(summary, prediction);
  return `${named(summary, summary.classes[best])}, ${percent(prediction[best])}`;
}

/** A value of the target, with as many decimals as the target's range asks for. */
function valueText(summary, value) {
  if (value === null) return "–";
  summary.decimals ??= decimalsFor(summary.models[0].points?.observed ?? summary.models[0].tree.leaves.flatMap((leaf) => leaf.prediction ?? []));
  return marked(value, summary.decimals);
}

/** Colour of a value between the lowest and the highest leaf of a regression tree. */
function valueColour(tree, value) {
  tree.valueRange ??= range(tree.data.leaves.filter((leaf) => leaf.prediction).map((leaf) => leaf.prediction[0]), 0);
  const [low, high] = tree.valueRange;
  const share = Math.round(100 * Math.min(1, Math.max(0, (value - low) / (high - low || 1))));
  return `color-mix(in oklab, var(--high) ${share}%, var(--low))`;
}

function leafColour(summary, tree, node) {
  const { prediction } = tree.leaf(node);
  if (!prediction) return "var(--line)";
  return summary.classes ? classColour(decided(summary, prediction)) : valueColour(tree, prediction[0]);
}

/** The classes of the rows at a node as parts of a stacked bar; in regression one part, coloured by the mean. */
function mixParts(summary, tree, node) {
  const { mix, n } = tree.data;
  if (!mix || !n[node]) return [];
  if (!summary.classes) return [{ share: 1, colour: valueColour(tree, mix[node]), text: `mean ${valueText(summary, mix[node])}` }];
  return mix[node].map((rows, k) => ({
    share: rows / n[node],
    colour: classColour(k),
    text: `${summary.classes[k]}: ${plural(rows, "row")}, ${percent(rows / n[node])}`,
  }));
}

function nodeStack(summary, tree, node) {
  const parts = mixParts(summary, tree, node);
  return stack(parts, parts.filter((part) => part.share > 0).map((part) => part.text).join("; "));
}

const nodeName = (tree, node) => `${tree.isLeaf(node) ? "Leaf" : "Node"} ${node}`;

/** A node in words, for screen readers. */
function nodeLabel(summary, tree, node) {
  const rows = tree.rowsAt(node);
  const what = tree.isLeaf(node) ? Object.values(leafText(summary, tree, node)).filter(Boolean).join(", ") : tree.question(node);
  return `${nodeName(tree, node)}: ${what}${rows === null ? "" : `; ${plural(rows, "row")}`}`;
}

/** Which colour means what. */
function showTreeLegend(summary, tree) {
  const key = (colour, text) => h("span", { class: "key" }, h("i", { class: "swatch", style: { background: colour } }), text);
  const parts = [];
  if (summary.classes) parts.push(...summary.classes.slice(0, CLASS_COLOURS).map((label, k) => key(classColour(k), named(summary, short(label, 30)))));
  if (summary.classes?.length > CLASS_COLOURS) parts.push(h("span", { class: "muted" }, `colours repeat for ${count(summary.classes.length - CLASS_COLOURS)} more classes`));
  if (!summary.classes) {
    const known = tree.data.leaves.filter((leaf) => leaf.prediction).map((leaf) => leaf.prediction[0]);
    if (known.length) {
      const [low, high] = range(known, 0);
      parts.push(h("span", { class: "key" }, short(summary.target, 30), h("span", { class: "number" }, valueText(summary, low)), h("i", { class: "ramp" }), h("span", { class: "number" }, valueText(summary, high))));
    }
  }
  const strips = tree.data.histograms && !Object.keys(summary.features.drawings).length ? "Strips show the rows by score, the line where they part. " : "";
  parts.push(h("span", { class: "muted" }, `${strips}${tree.data.n ? "Line width: rows that pass." : ""}`));
  byId("tree-legend").replaceChildren(...parts);
}
