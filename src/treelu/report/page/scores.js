// Scores with intervals, ROC or residuals, gain, calibration, training curves.

const MODEL_COLOURS = ["var(--accent)", "var(--ink-soft)", "var(--class-5)", "var(--positive)", "var(--class-3)"];
const MODEL_DASHES = [null, "5 4", "1.5 3.5", "9 3", "9 3 2 3"];
const modelColour = (i) => MODEL_COLOURS[i % MODEL_COLOURS.length];
const modelDash = (i) => MODEL_DASHES[i % MODEL_DASHES.length];

function showScores(summary) {
  if (!summary.metrics.length) return;
  show("scores");
  const others = summary.models.slice(1).map((model) => model.name);
  byId("scores-about").textContent =
    `On ${rowCount(summary)}, with 95 % bootstrap intervals (${count(summary.resamples)} resamples).` +
    (summary.scored ? ` ${summary.scored}` : "") +
    (others.length ? ` ${others.join(", ")} ${others.length > 1 ? "were" : "was"} scored on the same rows.` : "") +
    besideText(summary) +
    ` “${summary.baseline.name}” is what an answer without any features scores.` +
    (summary.classes?.length === 2 ? ` Recall and precision are those of ${named(summary, summary.classes[summary.positive])}${summary.threshold === 0.5 ? "" : `, at a threshold of ${summary.threshold}`}.` : "");
  byId("verdicts").append(...summary.verdicts.map((text) => h("li", {}, text)));
  byId("score-cards").append(...summary.metrics.map((metric) => scoreCard(summary, metric)));
}

/** What the models beside the page's own are. */
function besideText({ models }) {
  const [own, ...others] = models;
  const about = {
    CART: (model) => `CART is scikit-learn's decision tree, its size chosen by cross-validation${model.tree ? ` (${plural(model.tree.leaves.length, "leaf", "leaves")})` : ""}.`,
    "small CART": () => `Small CART has at most as many leaves as the ${own.name}.`,
    "logistic regression": linearText,
    "ridge regression": linearText,
  };
  return others.filter((model) => about[model.name]).map((model) => ` ${about[model.name](model)}`).join("");
}

const linearText = ({ name }) => `A ${name} weighs all features in one formula.`;

function scoreCard(summary, metric) {
  const rows = [...summary.models, summary.baseline].map((model, i) => ({
    name: model.name, colour: i < summary.models.length ? modelColour(i) : "var(--line-strong)", ...model.scores[metric.key],
  })).filter((row) => row.value !== null);
  const main = summary.models[0].scores[metric.key];
  const span = range(rows.flatMap((row) => [row.low ?? row.value, row.high ?? row.value]), 0.08);
  const at = (v) => `${((100 * (v - span[0])) / (span[1] - span[0])).toFixed(2)}%`;
  return h("article", { class: "score-card" },
    h("h3", {}, metric.name, h("span", { class: "muted" }, metric.higher_is_better ? " higher is better" : " lower is better")),
    h("p", { class: "muted explained" }, metric.about),
    h("p", { class: "headline" }, h("span", { class: "big number" }, score(main.value)), h("span", { class: "muted number" }, interval(main))),
    h("div", { class: "whiskers" }, rows.map((row) => [
      h("span", { class: "name", title: row.name }, row.name),
      h("span", { class: "whisker", style: { "--low": at(row.low ?? row.value), "--high": at(row.high ?? row.value), "--value": at(row.value), "--colour": row.colour } }, h("i"), h("b")),
      h("span", { class: "number" }, score(row.value, main.value)),
    ])),
    differences(summary, metric, main.value));
}

/** The paired differences to the models beside the page's own, folded away. */
function differences(summary, metric, like) {
  const lines = summary.models.slice(1).map((model) => leadText(metric, model, like)).filter(Boolean);
  return lines.length ? h("details", { class: "differences" }, h("summary", {}, "Differences"), lines) : null;
}

const interval = ({ value, low, high }) => (low === null ? "" : `${score(low, value)} – ${score(high, value)}`);

/** The paired difference to a model beside it, in words that do not claim more than the interval allows. */
function leadText(metric, model, like) {
  const lead = model.lead[metric.key];
  if (lead.value === null || lead.low === null) return null;
  const clear = lead.low > 0 || lead.high < 0;
  const better = lead.value > 0 === metric.higher_is_better;
  const difference = score(Math.abs(lead.value), like);
  const bounds = `95 % CI of the difference ${signedScore(lead.low, like)} to ${signedScore(lead.high, like)}`;
  const words = clear ? `${difference} ${better ? "better" : "worse"} than ${model.name}` : `No clear difference from ${model.name}`;
  return h("p", { class: clear ? (better ? "lead better" : "lead worse") : "lead" }, words, h("span", { class: "muted number" }, ` ${bounds}`));
}

const signedScore = (value, like) => (value > 0 ? "+" : "") + score(value, like);

function showPerformance(summary) {
  if (!summary.metrics.length) return;
  show("performance");
  const box = byId("performance-charts");
  if (summary.classes) {
    byId("performance-about").textContent = "Which rows are found and missed, how well rows are ranked, and how far predicted probabilities come true.";
    if (summary.classes.length === 2) box.append(thresholdFigure(summary));
    else if (summary.models[0].confusion) box.append(confusionFigure(summary));
    if (summary.models.some((model) => model.roc.length)) box.append(precisionRecallFigure(summary), rocFigure(summary));
    if (summary.classes.length === 2) box.append(gainFigure(summary));
  } else {
    byId("performance-about").textContent = "How far predictions are off, and whether they are right on average.";
    box.append(observedFigure(summary), residualFigure(summary));
  }
  box.append(calibrationFigure(summary));
}

/** Curves of a chart (`kind`: "roc" or "precision_recall"): two classes, one a model; more, one a class of the first model. */
function classCurves(summary, kind, note) {
  if (summary.classes.length === 2) {
    return summary.models.flatMap((model, i) => model[kind].map((curve) => ({
      ...curve, name: model.name, colour: modelColour(i), dash: modelDash(i), note: note(curve),
    })));
  }
  return summary.models[0][kind].map((curve) => ({
    ...curve, name: summary.classes[curve.class], colour: classColour(curve.class), note: note(curve),
  }));
}

function precisionRecallFigure(summary) {
  const curves = classCurves(summary, "precision_recall", (curve) => `average ${score(curve.average_precision)}`);
  const two = summary.classes.length === 2;
  const remark = two
    ? `Positive: ${named(summary, summary.classes[summary.positive])}. Share of those called positive that are, against the share of positives found.`
    : `${summary.models[0].name}, each class against the rest.`;
  const share = two ? summary.baseline.scores.average_precision.value : null;
  return figure("Precision and recall", remark, curves.length > 12 ? null : curves, (width) => axes({
    width, height: Math.min(360, Math.max(260, width * 0.8)), x: [0, 1], y: [0, 1], xLabel: "Recall", yLabel: "Precision",
    label: `Precision and recall: ${curves.map((curve) => `${curve.name} ${curve.note}`).join(", ")}`,
    plot: (x, y) => [
      share === null ? null : line([[0, share], [1, share]], x, y, "var(--line-strong)", "2 4", 1.5),
      [...curves].reverse().map((curve) => line(curve.recall.map((v, i) => [v, curve.precision[i]]), x, y, curve.colour, curve.dash)),
      two ? curves[0].recall.map((v, i) => dot(x(v), y(curves[0].precision[i]), 7, "transparent", `${percent(v)} of positives found, ${percent(curves[0].precision[i])} of those called positive are`)) : null,
    ],
  }));
}

function rocFigure(summary) {
  const curves = classCurves(summary, "roc", (curve) => `AUC ${score(curve.auc)}`);
  const remark = summary.classes.length === 2
    ? `Positive: ${named(summary, summary.classes[summary.positive])}. Share of positives found against share of negatives taken for positive.`
    : `${summary.models[0].name}, each class against the rest.`;
  return figure("ROC curve", remark, curves.length > 12 ? null : curves, (width) => axes({
    width, height: Math.min(360, Math.max(260, width * 0.8)), x: [0, 1], y: [0, 1], xLabel: "False positive rate", yLabel: "True positive rate",
    label: `ROC curves: ${curves.map((curve) => `${curve.name} ${curve.note}`).join(", ")}`,
    plot: (x, y) => [
      line([[0, 0], [1, 1]], x, y, "var(--line)", "2 4", 1.5),
      [...curves].reverse().map((curve) => line(curve.false_positive.map((v, i) => [v, curve.true_positive[i]]), x, y, curve.colour, curve.dash)),
      curves.length === 1 || summary.classes.length === 2
        ? curves[0].false_positive.map((v, i) => dot(x(v), y(curves[0].true_positive[i]), 7, "transparent", `${percent(curves[0].true_positive[i])} of positives found, ${percent(v)} of negatives taken for positive`))
        : null,
    ],
  }));
}

/** The share of positives among the rows ranked first, for each share of the rows: [[rows, positives], …]. */
function gainPoints({ positive, negative }) {
  const sum = (values) => values.reduce((a, b) => a + b, 0);
  const [positives, rows] = [sum(positive), sum(positive) + sum(negative)];
  let [found, ranked] = [0, 0];
  const points = [[0, 0]];
  for (let i = positive.length - 1; i >= 0; i -= 1) {
    found += positive[i];
    ranked += positive[i] + negative[i];
    points.push([ranked / rows, found / positives]);
  }
  return points;
}

/** Where a line through the points is at `at`. */
function between(points, at) {
  const i = Math.max(1, points.findIndex(([x]) => x >= at));
  const [[x1, y1], [x2, y2]] = [points[i - 1], points[i]];
  return x2 > x1 ? y1 + ((at - x1) / (x2 - x1)) * (y2 - y1) : y2;
}

/** How many of the positives are reached by going through the rows in the order of their probability. */
function gainFigure(summary) {
  const curves = summary.models.map((model, i) => ({ name: model.name, colour: modelColour(i), dash: modelDash(i), thresholds: model.thresholds }))
    .filter((model) => model.thresholds).map((model) => ({ ...model, points: gainPoints(model.thresholds) }));
  const [own] = curves;
  const first = between(own.points, 0.2);
  const positive = named(summary, summary.classes[summary.positive]);
  const remark = `Who looks at the most likely rows first finds the cases of ${positive} sooner: the first 20 % of the rows hold ${percent(first)} of them, ${first < 0.21 ? "no more than" : `${brief(first / 0.2, 2)} times as many as`} 20 % drawn at random.`;
  return figure("Gain", remark, curves, (width) => axes({
    width, height: Math.min(360, Math.max(260, width * 0.8)), x: [0, 1], y: [0, 1], xLabel: "Share of the rows, most likely first", yLabel: "Share of the cases found",
    label: `Gain: the first fifth of the rows hold ${percent(first)} of the cases`,
    plot: (x, y) => [
      line([[0, 0], [1, 1]], x, y, "var(--line)", "2 4", 1.5),
      [...curves].reverse().map((curve) => line(curve.points, x, y, curve.colour, curve.dash)),
      own.points.map(([rows, found]) => dot(x(rows), y(found), 7, "transparent", `${percent(rows)} of the rows hold ${percent(found)} of the cases: ${rows ? brief(found / rows, 2) : "–"} times as many as chance`)),
    ],
  }));
}

function calibrationFigure(summary) {
  const models = summary.models.map((model, i) => ({ ...model.calibration, name: model.name, colour: modelColour(i), dash: modelDash(i) }));
  const isClassifier = Boolean(summary.classes);
  const legend = models.map((model) => ({ ...model, note: isClassifier ? `error ${score(model.ece)}` : null }));
  const all = models.flatMap((model) => model.bins.flatMap((bin) => [bin.low, bin.high, bin.predicted]));
  const span = isClassifier ? [0, 1] : range(all);
  const what = summary.classes?.length === 2 ? `probability of ${named(summary, summary.classes[summary.positive])}` : isClassifier ? "probability of the predicted class" : summary.target;
  const remark = isClassifier
    ? `Observed share against predicted ${what}, in tenths${models.length > 1 ? "" : `; expected calibration error ${score(models[0].ece)}`}. On the diagonal, probabilities are right; the larger a dot, the more rows.`
    : "Mean observed against mean predicted, by tenths of the prediction. On the diagonal, predictions are right on average; the larger a dot, the more rows.";
  return figure("Calibration", remark, legend, (width) => axes({
    width, height: Math.min(360, Math.max(260, width * 0.8)), x: span, y: span, xLabel: `Predicted ${isClassifier ? "probability" : "value"}`, yLabel: `Observed ${isClassifier ? "share" : "mean"}`,
    label: "Calibration: observed against predicted",
    plot: (x, y) => [
      line([[span[0], span[0]], [span[1], span[1]]], x, y, "var(--line)", "2 4", 1.5),
      [...models].reverse().map((model) => [
        line(model.bins.map((bin) => [bin.predicted, bin.observed]), x, y, model.colour, model.dash, 1),
        model.bins.map((bin) => [
          s("line", { x1: x(bin.predicted), x2: x(bin.predicted), y1: y(bin.low), y2: y(bin.high), "stroke-width": 1.25, style: { stroke: model.colour, opacity: 0.55 } }),
          dot(x(bin.predicted), y(bin.observed), 2.5 + 4 * Math.sqrt(bin.n / summary.n_rows), model.colour, `${model.name}: predicted ${brief(bin.predicted)}, observed ${brief(bin.observed)} (${plural(bin.n, "row")})`),
        ]),
      ]),
    ],
  }));
}

function observedFigure(summary) {
  const { predicted, observed } = summary.models[0].points;
  const span = range([...predicted, ...observed]);
  return figure("Observed against predicted", pointsRemark(summary), null, (width) => axes({
    width, height: Math.min(360, Math.max(260, width * 0.8)), x: span, y: span, xLabel: `Predicted ${short(summary.target, 30)}`, yLabel: `Observed ${short(summary.target, 30)}`,
    label: "Observed against predicted values",
    plot: (x, y) => [
      line([[span[0], span[0]], [span[1], span[1]]], x, y, "var(--line)", "2 4", 1.5),
      predicted.map((v, i) => point(x(v), y(observed[i]), `predicted ${brief(v)}, observed ${brief(observed[i])}`)),
    ],
  }));
}

function residualFigure(summary) {
  const { predicted, observed } = summary.models[0].points;
  const residuals = observed.map((v, i) => v - predicted[i]);
  return figure("Residuals", "Observed minus predicted; above the line the prediction was too low.", null, (width) => axes({
    width, height: Math.min(360, Math.max(260, width * 0.8)), x: range(predicted), y: range([0, ...residuals]), xLabel: `Predicted ${short(summary.target, 30)}`, yLabel: "Residual",
    label: "Residuals against predicted values",
    plot: (x, y) => [
      line([[range(predicted)[0], 0], [range(predicted)[1], 0]], x, y, "var(--ink-soft)", null, 1.25),
      residuals.map((v, i) => point(x(predicted[i]), y(v), `predicted ${brief(predicted[i])}, off by ${withSign(v)}`)),
    ],
  }));
}

const point = (cx, cy, text) => s("circle", { cx: cx.toFixed(1), cy: cy.toFixed(1), r: 3, class: "point", ...hovering(text) });

function pointsRemark(summary) {
  const n = summary.models[0].points.predicted.length;
  return n < summary.n_rows ? `${count(n)} of ${rowCount(summary)}, chosen at random.` : `All ${rowCount(summary, n)}.`;
}

/** One chart for all curves named like losses, one for the other curves. */
function showTraining(summary) {
  const { epochs, metric, best_epoch: best } = summary.history;
  if (epochs.length < 2) return;
  const keys = [...new Set(epochs.flatMap((epoch) => Object.keys(epoch)))].filter((key) => key !== "epoch" && !/rate|time|second|lambda|anneal/i.test(key));
  const losses = keys.filter((key) => /loss/i.test(key));
  const others = keys.filter((key) => !/loss/i.test(key));
  if (!keys.length) return;
  show("training");
  const box = byId("training-charts");
  if (losses.length) box.append(curvesFigure("Loss", losses, epochs, best));
  if (others.length) box.append(curvesFigure(metric ? `Validation ${metric.replaceAll("_", "-")}` : "Score", others, epochs, best));
}

function curvesFigure(title, keys, epochs, best) {
  const curves = keys.map((key, i) => ({
    name: key.replaceAll("_", " "), colour: i === 0 ? "var(--accent)" : classColour(i), dash: i === 0 ? null : "5 4",
    points: epochs.map((epoch, e) => [epoch.epoch ?? e + 1, epoch[key]]).filter(([, v]) => v !== undefined),
  }));
  const values = curves.flatMap((curve) => curve.points.map(([, v]) => v));
  const steps = curves.flatMap((curve) => curve.points.map(([e]) => e));
  const remark = `${curves.length === 1 ? `${curves[0].name}. ` : ""}${best ? `Epoch ${best} was kept.` : ""}`.trim();
  return figure(title, remark, curves, (width) => axes({
    width, height: 260, x: range(steps, 0), y: range(values), xLabel: "Epoch", yLabel: title,
    label: `${title} by epoch`,
    plot: (x, y) => [best ? line([[best, range(values)[0]], [best, range(values)[1]]], x, y, "var(--ink-soft)", "2 3", 1) : null, ...curves.map((curve) => [
      line(curve.points, x, y, curve.colour, curve.dash),
      curve.points.map(([e, v]) => dot(x(e), y(v), 6, "transparent", `epoch ${e}: ${curve.name} ${brief(v, 4)}`)),
    ])],
  }));
}
