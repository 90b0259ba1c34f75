// What the model looks at: importances, dependence on single features, and the columns at a glance.

function showFeatures(app) {
  const { summary } = app;
  const models = summary.models.filter((model) => model.importances?.length);
  if (!models.length) return;
  show("features");
  byId("features-about").textContent =
    "How much each feature takes part in the decisions, averaged over the rows. It says what the model looks at, not what causes the target.";
  byId("feature-charts").append(...models.map((model) => {
    const index = summary.models.indexOf(model);
    const items = columnShares(summary, model.importances).slice(0, 20).map((item) => ({ ...item, text: percent(item.value, 1), colour: modelColour(index) }));
    const onpick = model.tree ? (item) => app.searchFor(index, item.feature) : null;
    return h("figure", { class: "chart" }, h("figcaption", {}, h("h3", {}, model.name)), barList(items, onpick), drawingStrip(summary, items));
  }));
  showDependence(summary);
}

/** Shares of features, those of a column's categories added up: {feature, name, value}, the largest first. */
function columnShares(summary, importances) {
  const categories = categoriesOf(summary.features);
  const columns = new Map();
  for (const { feature, share } of importances) {
    const column = categories.get(feature)?.column;
    const key = column === undefined ? feature : `=${column}`;
    const found = columns.get(key) ?? columns.set(key, { feature, name: column ?? summary.features.names[feature], short: column === undefined ? summary.features.short[feature] : null, value: 0 }).get(key);
    found.value += share;
  }
  return [...columns.values()].sort((a, b) => b.value - a.value);
}

/** Partial dependence of the strongest features, all on one scale. */
function showDependence(summary) {
  const curves = summary.models[0].dependence ?? [];
  if (!curves.length) return;
  byId("dependence").hidden = false;
  const what = summary.classes ? `probability of ${named(summary, summary.classes[summary.positive])}` : summary.target;
  byId("dependence-about").textContent = `Mean predicted ${what} if the feature had the value in all rows and the others stayed as they are. Where features go together, such rows may not exist. The grey bars show how many rows have such a value; where they are low, the curve rests on few rows.`;
  const categories = categoriesOf(summary.features);
  const span = range(curves.flatMap((curve) => curve.means), 0.08);
  byId("dependence-charts").append(...curves.map((curve) => {
    const name = summary.features.names[curve.feature];
    const ask = categories.get(curve.feature); // 0 and 1 are no and yes
    const xTicks = ask && curve.values.length === 2 ? [[0, short(ask.others, 18)], [1, short(ask.category, 18)]] : null;
    return figure(name, null, null, (width) => axes({
      width, height: 190, x: range([...curve.values, ...curve.rows.edges], 0.02), y: span, xTicks, xLabel: xTicks ? short(ask.column, 40) : summary.features.short[curve.feature] ?? short(name, 40), yLabel: summary.classes ? "Probability" : "Mean",
      label: `Partial dependence on ${name}`,
      plot: (x, y) => [
        valueBars(curve.rows, x, y(span[0]), 0.3 * (y(span[0]) - y(span[1]))),
        line(curve.values.map((v, i) => [v, curve.means[i]]), x, y, "var(--accent)"),
        curve.values.map((v, i) => dot(x(v), y(curve.means[i]), curve.values.length < 4 ? 4 : 7, curve.values.length < 4 ? "var(--accent)" : "transparent", `${brief(v)}: ${summary.classes ? percent(curve.means[i], 1) : brief(curve.means[i], 4)}`)),
      ],
    }));
  }));
}

/** Drawings of the most important features. */
function drawingStrip(summary, items) {
  const drawn = items.filter((item) => summary.features.drawings[item.feature]).slice(0, 10);
  if (!drawn.length) return null;
  return h("div", { class: "gallery" }, drawn.map((item) => h("figure", {}, picture(summary.features.drawings[item.feature], item.name),
    h("figcaption", {}, h("span", {}, item.name), h("span", { class: "number" }, item.text)))));
}

/** How many rows have which value, as bars of at most `tall` pixels on the line at `base`. */
function valueBars({ edges, counts }, x, base, tall) {
  const most = Math.max(1, ...counts);
  return counts.map((n, b) => (n ? s("rect", {
    class: "value-bar", x: x(edges[b]).toFixed(1), width: Math.max(1, x(edges[b + 1]) - x(edges[b]) - 0.5).toFixed(1),
    y: (base - (tall * n) / most).toFixed(1), height: ((tall * n) / most).toFixed(1), ...hovering(`${plural(n, "row")} from ${brief(edges[b])} to ${brief(edges[b + 1])}`),
  }) : null));
}

/** Type, missing values and range or usual categories of each column. */
function showColumns(summary) {
  if (!summary.overview.length) return;
  show("columns");
  const all = summary.columns?.length ?? summary.features.names.length;
  const part = summary.overview.length < all ? ` The first ${count(summary.overview.length)} of ${count(all)}.` : "";
  byId("columns-about").textContent = `What the model reads, in ${rowCount(summary)}.${part}`;
  const head = ["Column", "Type", "Missing", "Values", "Distribution"];
  byId("column-table").append(
    h("thead", {}, h("tr", {}, head.map((name) => h("th", { scope: "col", class: name === "Missing" ? "number" : null }, name)))),
    h("tbody", {}, summary.overview.map((column) => h("tr", {},
      h("td", { title: column.name }, short(tidy(column.name), 40)),
      h("td", { class: "muted" }, column.kind),
      h("td", { class: "number" }, column.missing ? percent(column.missing) : "none"),
      h("td", {}, valuesText(column)),
      h("td", {}, column.top ? shareBars(column.top) : column.histogram ? spark(column.histogram) : null)))));
}

/** "19 to 74, median 41", or the most frequent categories. */
function valuesText(column) {
  if (column.top) {
    const more = column.n_categories - column.top.length;
    return column.top.map(({ name, share }) => `${short(name, 24)} ${percent(share)}`).join(", ") + (more > 0 ? `, ${count(more)} more` : "");
  }
  if (column.low === undefined) return "–";
  const say = column.kind === "date" ? isoDate : (v) => brief(v, 4);
  return column.low === column.high ? `always ${say(column.low)}` : `${say(column.low)} to ${say(column.high)}, median ${say(column.middle)}`;
}

const SPARK = { width: 120, height: 22 };

function spark(counts) {
  const most = Math.max(1, ...counts);
  const step = SPARK.width / counts.length;
  return s("svg", { ...SPARK, viewBox: `0 0 ${SPARK.width} ${SPARK.height}`, "aria-hidden": "true" }, counts.map((n, b) => (n ? s("rect", {
    class: "value-bar", x: (b * step).toFixed(1), width: Math.max(1, step - 0.5).toFixed(1), y: (SPARK.height * (1 - n / most)).toFixed(1), height: ((SPARK.height * n) / most).toFixed(1),
  }) : null)));
}

const shareBars = (top) => s("svg", { ...SPARK, viewBox: `0 0 ${SPARK.width} ${SPARK.height}`, "aria-hidden": "true" },
  top.map(({ share }, i) => s("rect", { class: "value-bar", x: 0, width: Math.max(1, SPARK.width * share).toFixed(1), y: i * 8, height: 5 })));
