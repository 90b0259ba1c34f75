// What a node says: its prediction, its colour, the mix of its rows.

/** The prediction of a leaf as text: {main, side}. */
function leafText(summary, tree, node) {
  const { prediction } = tree.leaf(node);
  if (!prediction) return { main: "linear leaf" };
  if (!summary.classes) return { main: prediction.map((v) => valueText(summary, v)).join(", "), side: tree.leafWeights ? "mean" : null };
  const best = bestClass(prediction);
  return { main: summary.classes[best], side: percent(prediction[best]) };
}

const cardLine = (main, side) => h("span", { class: "line" }, h("span", { class: "main" }, main), side && h("span", { class: "side number" }, side));

function leafLines(summary, tree, node) {
  const { main, side } = leafText(summary, tree, node);
  return [cardLine(main, side)];
}

/** A split's two strongest features, drawn where there are drawings. */
function splitLines(summary, tree, node) {
  const { total } = tree.weights.row(node);
  const drawn = cardDrawings(summary, tree, node);
  if (drawn.length) return [h("span", { class: "pair" }, drawn.map(({ svg, name, value }) => featureDrawing(svg, name, total > 1 ? `${value < 0 ? MINUS : "+"} ${name}` : tree.question(node), value)))];
  if (total === 1) return [cardLine(tree.names[tree.weights.row(node).features[0]], tree.condition(node))];
  if (total === 0) return [cardLine(tree.question(node))];
  return [cardLine(tree.term(node, 0)), cardLine(tree.term(node, 1), total > 2 ? h("span", { class: "muted" }, `+${count(total - 2)}`) : null)];
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
  const best = bestClass(prediction);
  return `${summary.classes[best]}, ${percent(prediction[best])}`;
}

/** A value of the target, with as many decimals as the target's range asks for. */
function valueText(summary, value) {
  if (value === null) return "–";
  summary.decimals ??= decimalsFor(summary.models[0].points?.observed ?? summary.models[0].tree.leaves.flatMap((leaf) => leaf.prediction ?? []));
  return signed(value.toFixed(summary.decimals));
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
  return summary.classes ? classColour(bestClass(prediction)) : valueColour(tree, prediction[0]);
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
