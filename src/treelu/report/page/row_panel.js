// Follow a row: pick a listed one or type one in, and see its path and prediction.

class RowPanel {
  constructor(app) {
    this.app = app;
    this.build();
  }

  build() {
    const { summary } = this.app;
    this.select = h("select", { id: "row-select", "aria-label": "Row to follow", onchange: () => this.fromSelect() },
      h("option", { value: "" }, "Follow a row…"),
      summary.samples.map((sample, i) => h("option", { value: i }, optionText(summary, sample))));
    const step = (by, mark, label) => h("button", { type: "button", class: "quiet", "aria-label": label, onclick: () => this.step(by) }, mark);
    this.open = h("button", { type: "button", class: "quiet", id: "row-type", "aria-expanded": "false", "aria-controls": "row-editor", onclick: () => this.toggleEditor() }, "Type a row");
    this.clearer = h("button", { type: "button", class: "quiet", id: "row-clear", hidden: true, onclick: () => this.clear() }, "Clear");
    this.result = h("div", { class: "row-result", id: "row-result", role: "status" });
    const picking = summary.samples.length ? [this.select, step(-1, "‹", "Previous row"), step(1, "›", "Next row")] : [];
    byId("row-controls").append(...picking, this.open, this.clearer);
    byId("row-bar").append(this.editor(), this.result);
  }

  editor() {
    const { reader } = this.app;
    this.text = h("textarea", {
      id: "row-text", rows: 6, spellcheck: "false", autocomplete: "off", "aria-label": "Values of a row", "aria-describedby": "row-help row-message",
      placeholder: reader?.placeholder(), oninput: () => this.fromText(),
    });
    this.message = h("p", { class: "message", id: "row-message", role: "status" });
    this.help = h("p", { class: "muted", id: "row-help" }, reader?.help());
    this.understood = h("ul", { class: "understood", id: "row-understood" });
    this.box = h("div", { class: "row-editor", id: "row-editor", hidden: true }, this.text, this.help, this.message, this.understood);
    return this.box;
  }

  toggleEditor(open = this.box.hidden) {
    this.box.hidden = !open;
    this.open.setAttribute("aria-expanded", String(open));
    if (!open) return;
    const { tree, row, reader, summary } = this.app;
    const possible = tree.data.complete && reader;
    this.text.hidden = !possible;
    this.help.hidden = !possible;
    if (!reader) {
      this.message.textContent = "A molecule cannot be encoded in the page. Pick a listed one, or use treelu predict.";
      return;
    }
    if (!possible) {
      const kept = tree.weights.row(0).features.length;
      this.message.textContent = `This tree has ${count(tree.data.n_weights)} weights, too many for a page: it carries the ${count(kept)} strongest of each split, with which a typed row might take another way than the tree's. Pick a listed row, or use treelu predict.`;
      return;
    }
    if (row?.sample !== undefined && row.sample !== null) this.text.value = reader.write(expandSample(summary, summary.samples[row.sample]));
    this.text.focus();
  }

  fromSelect() {
    if (this.select.value === "") this.clear();
    else this.pick(Number(this.select.value));
  }

  step(by) {
    const n = this.app.summary.samples.length;
    const at = this.app.row?.sample ?? (by > 0 ? -1 : 0);
    this.pick((at + by + n) % n);
  }

  /** Follow listed row i. Its path was computed with the full tree. */
  pick(i) {
    const { app } = this;
    const sample = app.summary.samples[i];
    this.select.value = String(i);
    const x = expandSample(app.summary, sample);
    if (!this.box.hidden && app.tree.data.complete && app.reader) this.text.value = app.reader.write(x);
    this.message.textContent = "";
    this.understood.replaceChildren();
    app.follow({ sample: i, x, path: app.tree.data.paths[i], prediction: app.model.sample_predictions[i] });
  }

  fromText() {
    const { app } = this;
    const row = app.reader.read(this.text.value);
    this.message.classList.toggle("error", Boolean(row.error) && this.text.value.trim() !== "");
    this.message.textContent = row.error ?? "";
    this.understood.replaceChildren();
    if (row.error) {
      app.follow(null);
      return;
    }
    const path = app.tree.walk(row.x);
    const ignored = row.ignored.length ? ` Not used: ${short(row.ignored.map(tidy).join(", "), 80)}.` : "";
    this.message.textContent = app.reader.count(row) + ignored;
    this.showUnderstood(row.understood);
    this.select.value = "";
    app.follow({ sample: null, x: row.x, path, prediction: app.tree.predict(path.nodes[path.nodes.length - 1], row.x) });
  }

  /** What each cell was taken for. */
  showUnderstood(columns) {
    if (!columns) return;
    const shown = columns.length <= 40 ? columns : columns.filter((column) => column.given).slice(0, 40);
    this.understood.replaceChildren(...shown.map(({ name, said, given }) => h("li", { class: given ? null : "muted" }, h("span", {}, short(tidy(name), 40)), h("b", {}, said))));
  }

  clear() {
    this.select.value = "";
    this.text.value = "";
    this.message.textContent = "";
    this.understood.replaceChildren();
    this.app.follow(null);
  }

  /** Say where the followed row ends. */
  report() {
    const { app } = this;
    const { row, summary } = app;
    this.clearer.hidden = !row;
    if (!row) {
      this.result.replaceChildren();
      return;
    }
    const sample = row.sample === null ? null : summary.samples[row.sample];
    const leaf = row.path.nodes[row.path.nodes.length - 1];
    const target = sample && targetText(summary, sample);
    const right = summary.classes && sample && sample.target !== null && decided(summary, row.prediction) === sample.target;
    const tag = summary.classes ? h("i", { class: "swatch", style: { background: classColour(decided(summary, row.prediction)) } }) : null;
    this.result.replaceChildren(
      ...[sample?.drawing ? picture(sample.drawing, sample.name) : null,
        h("span", {}, "ends in ", h("button", { type: "button", class: "link", onclick: () => app.view.select(leaf) }, `leaf ${leaf}`)),
        h("span", {}, "predicted ", tag, h("b", {}, predictionText(summary, row.prediction))),
        target === null || target === undefined ? null : h("span", {}, "observed ", targetMark(summary, sample), h("b", {}, summary.classes ? named(summary, target) : target), summary.classes ? (right ? " ✓" : " ✗") : "")].filter(Boolean));
  }
}

function optionText(summary, sample) {
  const target = targetText(summary, sample);
  return short(sample.name, 60) + (target === null ? "" : ` · ${short(target, 24)}`);
}
