// The table of leaves, sortable, a page at a time; the page's remarks.

const LEAF_PAGE = 25;

class LeafTable {
  constructor(app) {
    Object.assign(this, { app, table: byId("leaf-table"), by: "n", down: true, shown: LEAF_PAGE });
  }

  columns() {
    const { summary, tree } = this.app;
    const counted = Boolean(tree.data.n);
    const seen = Boolean(tree.data.mix);
    const top = (leaf) => (leaf.prediction ? (summary.classes ? Math.max(...leaf.prediction) : leaf.prediction[0]) : -Infinity);
    const drawn = summary.samples.some((sample) => sample.drawing);
    return [
      { key: "node", name: "Leaf", number: true, value: (leaf) => leaf.node, cell: (leaf) => this.link(leaf) },
      { key: "depth", name: "Depth", number: true, value: (leaf) => leaf.depth, cell: (leaf) => count(leaf.depth) },
      counted && { key: "n", name: "Rows", number: true, value: (leaf) => leaf.n, cell: (leaf) => count(leaf.n) },
      counted && { key: "share", name: "Share", number: true, value: (leaf) => leaf.n, cell: (leaf) => percent(leaf.share) },
      { key: "prediction", name: "Prediction", number: !summary.classes, value: top, cell: (leaf) => this.predictionCell(leaf) },
      seen && summary.classes && { key: "mix", name: "Observed classes", value: purity, cell: (leaf) => this.mixCell(leaf) },
      seen && !summary.classes && { key: "mix", name: "Observed mean", number: true, value: (leaf) => leaf.observed ?? -Infinity, cell: (leaf) => valueText(summary, leaf.observed) },
      drawn && { key: "examples", name: "Examples", cell: (leaf) => this.examples(leaf) },
    ].filter(Boolean);
  }

  link(leaf) {
    return h("button", { type: "button", class: "link number", onclick: () => this.app.goTo(leaf.node) }, String(leaf.node));
  }

  predictionCell(leaf) {
    const { summary, tree } = this.app;
    const { main, side } = leafText(summary, tree, leaf.node);
    return h("span", { class: "prediction" }, h("i", { class: "swatch", style: { background: leafColour(summary, tree, leaf.node) } }),
      h("span", { class: "name" }, main), side && h("span", { class: "number" }, side));
  }

  mixCell(leaf) {
    if (!leaf.n) return h("span", { class: "muted" }, "no rows");
    const best = bestClass(leaf.observed);
    return h("span", { class: "mix" }, nodeStack(this.app.summary, this.app.tree, leaf.node),
      h("span", { class: "muted number" }, `${percent(leaf.observed[best] / leaf.n)} ${this.app.summary.classes[best]}`));
  }

  examples(leaf) {
    const { summary, tree, rows } = this.app;
    const here = summary.samples.map((_, i) => i).filter((i) => summary.samples[i].drawing && tree.data.paths[i].nodes.includes(leaf.node));
    return h("span", { class: "examples" }, here.slice(0, 3).map((i) => h("button", {
      type: "button", class: "row", title: summary.samples[i].name,
      onclick: () => {
        rows.pick(i);
        byId("tree").scrollIntoView();
      },
    }, picture(summary.samples[i].drawing, summary.samples[i].name))));
  }

  draw() {
    const { tree, summary, model } = this.app;
    show("leaves");
    const several = summary.models.filter((each) => each.tree).length > 1 ? ` (${model.name})` : "";
    byId("leaves-about").textContent = `${plural(tree.nLeaves, "leaf", "leaves")}${several}. Choose a number to see the leaf in the tree.`;
    const columns = this.columns();
    const sorter = columns.find((column) => column.key === this.by) ?? columns[0];
    const leaves = [...tree.data.leaves].sort((a, b) => (sorter.value(a) - sorter.value(b) || b.node - a.node) * (this.down ? -1 : 1));
    this.table.replaceChildren(
      h("thead", {}, h("tr", {}, columns.map((column) => this.headCell(column)))),
      h("tbody", {}, leaves.slice(0, this.shown).map((leaf) => h("tr", {}, columns.map((column) => h("td", { class: column.number ? "number" : null }, column.cell(leaf)))))));
    byId("leaf-more").replaceChildren(...(leaves.length > this.shown ? [this.moreButton(leaves.length)] : []));
  }

  headCell(column) {
    const sorted = column.key === this.by ? (this.down ? "descending" : "ascending") : null;
    const attributes = { scope: "col", class: column.number ? "number" : null, "aria-sort": sorted };
    if (!column.value) return h("th", attributes, column.name);
    const mark = sorted ? (this.down ? " ↓" : " ↑") : "";
    return h("th", attributes, h("button", {
      type: "button", class: "plain",
      onclick: () => {
        this.down = column.key === this.by ? !this.down : true;
        this.by = column.key;
        this.draw();
        this.table.querySelector("[aria-sort] button")?.focus();
      },
    }, column.name + mark));
  }

  moreButton(n) {
    return h("button", {
      type: "button", class: "quiet",
      onclick: () => {
        this.shown += 4 * LEAF_PAGE;
        this.draw();
      },
    }, `Show more of ${plural(n, "leaf", "leaves")}`);
  }
}

const purity = (leaf) => (leaf.n ? Math.max(...leaf.observed) / leaf.n : -1);

function showAbout(summary, trees) {
  show("about");
  const models = summary.models.map((model, i) => {
    const tree = trees[i];
    const facts = [["Model", model.kind]];
    if (tree) {
      facts.push(["Leaves", count(tree.nLeaves)], ["Depth", count(model.tree.depth)], ["Weights that are not 0", count(model.tree.n_weights)]);
    }
    const parameters = Object.entries(model.parameters).map(([key, value]) => [key, String(value)]);
    return h("section", {}, h("h3", {}, model.name), list(facts), parameters.length ? h("details", {}, h("summary", {}, "Parameters"), list(parameters)) : null);
  });
  const reading = h("section", {}, h("h3", {}, "Reading the tree"),
    h("p", {}, "At a node, features are multiplied by their weights and added up. Where the sum reaches the bound the row takes the lower branch, else the upper one. The leaf it reaches holds the prediction."),
    h("p", {}, "In the tree: arrow keys move, Enter opens and closes, + and − zoom; Ctrl with the wheel or two fingers zoom as well, dragging moves."));
  const notes = summary.notes.length ? h("section", {}, h("h3", {}, "Notes"), h("ul", {}, summary.notes.map((note) => h("li", { class: "note" }, note)))) : null;
  byId("about-grid").append(...[reading, ...models, notes].filter(Boolean));
  byId("foot").textContent = `Made with treelu ${summary.treelu}. This file is complete in itself: it loads nothing and sends nothing.`;
}

const list = (pairs) => h("dl", {}, pairs.map(([key, value]) => [h("dt", {}, key), h("dd", {}, value)]));
