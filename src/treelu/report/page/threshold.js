// The confusion matrix: of two classes with a threshold that can be moved, of more as it is.

/** Rows found and missed at a threshold: {tp, fp, fn, tn}. Of two equally likely classes the first is predicted. */
function confusionAt({ probability, positive, negative }, threshold, positiveIsFirst) {
  const sums = { tp: 0, fp: 0, fn: 0, tn: 0 };
  probability.forEach((value, i) => {
    const called = threshold === 0.5 && !positiveIsFirst ? value > threshold : value >= threshold;
    sums[called ? "tp" : "fn"] += positive[i];
    sums[called ? "fp" : "tn"] += negative[i];
  });
  return sums;
}

const shareOf = (part, whole) => (whole ? percent(part / whole) : "–");

function matrixTable(summary, names, rows, marks = null) {
  const most = Math.max(1, ...rows.flat());
  return h("table", { class: "confusion" },
    h("thead", {}, h("tr", {}, h("td", {}), names.map((name) => h("th", { scope: "col", title: name }, `predicted ${short(name, 18)}`)))),
    h("tbody", {}, rows.map((row, i) => h("tr", {}, h("th", { scope: "row", title: names[i] }, `observed ${short(names[i], 18)}`), row.map((n, j) =>
      h("td", { class: i === j ? "right number" : "wrong number", "data-cell": marks?.[i]?.[j], style: { "--share": `${Math.round((100 * n) / most)}%` } }, count(n)))))));
}

/** A slider from 0 to 1; matrix, recall, precision and accuracy follow it. */
function thresholdFigure(summary) {
  const models = summary.models.filter((model) => model.thresholds);
  const positive = summary.classes[summary.positive];
  const other = summary.classes[1 - summary.positive];
  const box = h("div", { class: "threshold-box" });
  const slider = h("input", { type: "range", id: "threshold", min: 0, max: 1, step: 0.01, value: summary.threshold, "aria-label": `Probability from which ${positive} is predicted` });
  const shown = h("output", { class: "number", for: "threshold", id: "threshold-value" });
  const draw = () => {
    const threshold = Number(slider.value);
    shown.textContent = threshold.toFixed(2);
    box.replaceChildren(...models.map((model) => {
      const { tp, fp, fn, tn } = confusionAt(model.thresholds, threshold, summary.positive === 0);
      const facts = [["Recall", shareOf(tp, tp + fn), "of the positives are found"], ["Precision", shareOf(tp, tp + fp), "of those called positive are"], ["Accuracy", shareOf(tp + tn, tp + tn + fp + fn), "of all rows are right"]];
      return h("section", { "data-model": model.name }, models.length > 1 ? h("h4", {}, model.name) : null,
        matrixTable(summary, [other, positive], [[tn, fp], [fn, tp]], [["tn", "fp"], ["fn", "tp"]]),
        h("dl", { class: "threshold-facts" }, facts.map(([name, value, words]) => [h("dt", {}, name), h("dd", {}, h("b", { class: "number" }, value), h("span", { class: "muted" }, ` ${words}`))])));
    }));
  };
  slider.addEventListener("input", draw);
  draw();
  return h("figure", { class: "chart", id: "confusion" },
    h("figcaption", {}, h("h3", {}, "Who is found, who is missed"),
      h("p", {}, `A row is called ${named(summary, positive)} where its probability is at least the threshold${summary.positive === 0 ? "" : ", and above it at 0.50"}. Lower it to find more of them, at the price of more false alarms.`)),
    h("label", { class: "slider" }, h("span", {}, "Threshold"), slider, shown), box);
}

function confusionFigure(summary) {
  const [model] = summary.models;
  return h("figure", { class: "chart", id: "confusion" },
    h("figcaption", {}, h("h3", {}, "Confusion matrix"), h("p", {}, `Rows of ${model.name} by observed and predicted class.`)),
    h("div", { class: "scroll" }, matrixTable(summary, summary.classes, model.confusion)));
}
