// The page: what is shown now, and who hears of a change.

const PAPER_WIDTH = 680; // A4 within the margins of the style sheet

class App {
  constructor(summary) {
    this.summary = summary;
    this.reader = rowReader(summary);
    this.trees = summary.models.map((model) => model.tree && new Tree(model.tree, summary.features, { signs: yesIsAClass(summary), flip: summary.classes?.length === 2 && summary.positive === 0 }));
    this.views = this.trees.map((tree) => tree && new TreeView(tree, summary, (node) => this.panel.show(node)));
    this.current = this.trees.findIndex(Boolean);
    this.row = null;
  }

  get model() {
    return this.summary.models[this.current];
  }

  get tree() {
    return this.trees[this.current];
  }

  get view() {
    return this.views[this.current];
  }

  start() {
    showFacts(this.summary, this.trees[0]);
    showWarnings(this.summary);
    showGlossary(this.summary);
    showScores(this.summary);
    showPerformance(this.summary);
    showFeatures(this);
    showColumns(this.summary);
    showQuestions(this.summary);
    showTraining(this.summary);
    showAbout(this.summary, this.trees);
    if (this.current >= 0) this.startTree();
    showContents();
  }

  startTree() {
    show("tree");
    this.panel = new NodePanel(this);
    this.rows = new RowPanel(this);
    this.whatIf = new WhatIf(this);
    this.search = new Search(this);
    this.leaves = new LeafTable(this);
    const shown = this.trees.map((tree, i) => (tree ? i : -1)).filter((i) => i >= 0);
    if (shown.length > 1) {
      byId("models").append(...shown.map((i) => h("button", { type: "button", "data-model": i, onclick: () => this.showModel(i) }, this.summary.models[i].name)));
    }
    if (!this.trees[0]) byId("models").after(h("p", { class: "muted", id: "tree-whose" }, `of ${this.model.name}; ${this.summary.models[0].name} is not a single tree`));
    const press = (id, action) => byId(id).addEventListener("click", action);
    press("collapse", () => this.redraw(() => this.view.collapseAll()));
    press("expand", () => this.expand());
    press("zoom-in", () => this.view.zoom(this.view.scale * 1.25));
    press("zoom-out", () => this.view.zoom(this.view.scale / 1.25));
    press("fit", () => this.view.fit());
    byId("stage").addEventListener("keydown", (event) => this.view.key(event));
    makeDraggable(byId("viewport"), () => this.view);
    this.showModel(this.current);
    let scale = 1;
    window.addEventListener("beforeprint", () => {
      scale = this.view.scale;
      this.view.zoom(Math.min(1, PAPER_WIDTH / this.view.width));
    });
    window.addEventListener("afterprint", () => this.view.zoom(scale));
  }

  showModel(i) {
    this.current = i;
    for (const button of byId("models").children) button.setAttribute("aria-pressed", String(Number(button.dataset.model) === i));
    byId("stage").setAttribute("aria-label", `Decision tree ${this.model.name}`);
    byId("tree-hint").textContent = "";
    this.row = this.row && this.row.sample !== null ? this.rowOf(this.row.sample) : null;
    this.view.path = this.row && new Set(this.row.path.nodes);
    if (this.row) this.view.reveal(this.row.path.nodes.at(-1));
    this.view.draw();
    this.view.fitAtFirst();
    this.search.run();
    this.panel.show(this.view.selected);
    this.rows.report();
    this.rows.toggleEditor(false);
    this.whatIf.close();
    this.leaves.draw();
    showCards(this);
    showTreeLegend(this.summary, this.tree);
  }

  rowOf(sample) {
    const x = expandSample(this.summary, this.summary.samples[sample]);
    return { sample, x, path: this.tree.data.paths[sample], prediction: this.model.sample_predictions[sample] };
  }

  /** Light the path of `row`, or of none. */
  follow(row) {
    this.row = row;
    this.view.follow(row && row.path.nodes);
    this.rows.report();
    this.panel.show(this.view.selected);
  }

  goTo(node) {
    this.view.select(node);
    byId("tree").scrollIntoView();
  }

  searchFor(model, feature) {
    if (model !== this.current) this.showModel(model);
    byId("tree").scrollIntoView();
    this.search.choose(feature);
  }

  expand() {
    let all;
    this.redraw(() => {
      all = this.view.expandAll();
    });
    byId("tree-hint").textContent = all ? "" : `Opened as far as ${count(MOST_CARDS)} nodes fit; open single branches to go deeper.`;
  }

  redraw(change) {
    change();
    this.view.draw();
    this.view.fitAtFirst();
    this.panel.show(this.view.selected);
  }
}

/** Whether classes are called as branches usually are. */
const yesIsAClass = ({ classes }) => Boolean(classes?.some((label) => ["yes", "no"].includes(label.trim().toLowerCase())));

/** "200 hold-out rows", or training rows, or just rows. */
const ROW_NOUNS = { "hold-out": "hold-out row", training: "training row", given: "row" };
const rowCount = (summary, n = summary.n_rows) => plural(n, ROW_NOUNS[summary.rows_are]);

function showFacts(summary, tree) {
  const facts = [summary.models[0].name];
  if (tree) {
    const reached = tree.data.leaves.filter((leaf) => leaf.n > 0).length;
    const some = reached && reached < tree.nLeaves ? `, of which rows reach ${count(reached)}` : "";
    facts.push(plural(tree.nLeaves, "leaf", "leaves") + some, `depth ${tree.data.depth}`);
  }
  facts.push(plural(summary.features.names.length, "feature"));
  if (summary.classes) facts.push(plural(summary.classes.length, "class", "classes"));
  if (summary.n_rows !== null) facts.push(rowCount(summary));
  byId("facts").append(...facts.flatMap((fact, i) => (i ? [h("span", { class: "separator" }, " · "), fact] : [fact])));
}

function showContents() {
  const sections = [...document.querySelectorAll("main > section:not([hidden])")];
  byId("contents").append(...sections.map((section) => h("a", { href: `#${section.id}` }, section.dataset.title)));
}

function startTheme() {
  const button = byId("theme");
  const system = window.matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (document.documentElement.dataset.theme ?? (system.matches ? "dark" : "light")) === "dark";
  const update = () => {
    button.textContent = isDark() ? "Light theme" : "Dark theme";
  };
  button.addEventListener("click", () => {
    document.documentElement.dataset.theme = isDark() ? "light" : "dark";
    update();
  });
  system.addEventListener("change", update);
  update();
}

startTheme();
new App(JSON.parse(byId("report-data").textContent)).start();
