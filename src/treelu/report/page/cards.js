// Score cards: splits with the same weights as one formula and a table of bands.

/** The cards of the tree that is shown now. */
function showCards(app) {
  const { tree } = app;
  const { cards } = tree.data;
  byId("cards").hidden = !cards.length;
  if (!cards.length) return;
  byId("cards-about").textContent = cards[0].whole
    ? "The whole tree is one score: work out the formula for a row and look up its band."
    : `Some neighbouring splits have the same formula and differ only in what its value must reach. ${cards.length > 1 ? "Each such group" : "This group"} is shown as one score: work out the formula and look up the band.`;
  byId("cards-list").replaceChildren(...cards.map((card) => h("article", { class: "band-card" },
    card.whole ? null : h("h3", { class: "sub" }, `${card.splits.length > 1 ? "Nodes" : "Node"} ${card.splits.join(", ")}`),
    h("p", { class: "score-formula" }, `Score = ${cardFormula(tree, card)}`),
    h("div", { class: "scroll" }, bandTable(app, card)))));
}

/** "2 × age − 0.5 × fare". */
function cardFormula(tree, { terms, rest }) {
  const words = terms.map(({ feature, factor }, i) => {
    const size = factor.replace(/^[-−]/, "");
    const sign = size === factor ? "+" : MINUS;
    return `${i || sign === MINUS ? `${sign} ` : ""}${size === "1" ? "" : `${size} × `}${tree.names[feature]}`;
  });
  return words.join(" ") + (rest ? ` + ${count(rest)} more` : "");
}

function bandTable(app, { bands }) {
  const { summary, tree } = app;
  const counted = Boolean(tree.data.n);
  const seen = Boolean(tree.data.mix);
  const head = ["Score", "Leads to", "Prediction", counted && "Rows", seen && (summary.classes ? "Observed classes" : "Observed mean")].filter(Boolean);
  return h("table", { class: "leaves" },
    h("thead", {}, h("tr", {}, head.map((name) => h("th", { scope: "col", class: name === "Rows" ? "number" : null }, name)))),
    h("tbody", {}, bands.map(({ words, node }) => h("tr", {},
      h("td", {}, words),
      h("td", {}, h("button", { type: "button", class: "link number", onclick: () => app.goTo(node) }, nodeName(tree, node))),
      h("td", {}, tree.isLeaf(node) ? app.leaves.predictionCell(tree.leaf(node)) : h("span", { class: "muted" }, "further splits")),
      counted ? h("td", { class: "number" }, count(tree.rowsAt(node))) : null,
      seen ? h("td", {}, summary.classes ? nodeStack(summary, tree, node) : valueText(summary, tree.data.mix[node])) : null))));
}
