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
    const { features, n_rows } = this.app.summary;
    const filler = n_rows === null ? "0" : "their hold-out median";
    this.text = h("textarea", {
      id: "row-text", rows: 6, spellcheck: "false", autocomplete: "off", "aria-label": "Feature values of a row", "aria-describedby": "row-help row-message",
      placeholder: `${features.names.slice(0, 3).map((name) => `${short(tidy(name), 30)} = …`).join("\n")}`, oninput: () => this.fromText(),
    });
    this.message = h("p", { class: "message", id: "row-message", role: "status" });
    this.help = h("p", { class: "muted", id: "row-help" },
      `One “name = value” a line, or a line of CSV: ${plural(features.names.length, "value")} in the order of the columns, or with a header line above it. Features left out take ${filler}.`);
    this.box = h("div", { class: "row-editor", id: "row-editor", hidden: true }, this.text, this.help, this.message);
    return this.box;
  }

  toggleEditor(open = this.box.hidden) {
    this.box.hidden = !open;
    this.open.setAttribute("aria-expanded", String(open));
    if (!open) return;
    const { tree, row, reader, summary } = this.app;
    const possible = tree.data.complete;
    this.text.hidden = !possible;
    this.help.hidden = !possible;
    if (!possible) {
      const kept = tree.weights.row(0).features.length;
      this.message.textContent = `This tree has ${count(tree.data.n_weights)} weights, too many for a page: it carries the ${count(kept)} strongest of each split, with which a typed row might take another way than the tree's. Pick a listed row, or use treelu predict.`;
      return;
    }
    if (row?.sample !== undefined && row.sample !== null) this.text.value = reader.write(summary.samples[row.sample]);
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
    if (!this.box.hidden && app.tree.data.complete) this.text.value = app.reader.write(sample);
    this.message.textContent = "";
    app.follow({ sample: i, x: app.reader.expand(sample), path: app.tree.data.paths[i], prediction: app.model.sample_predictions[i] });
  }

  fromText() {
    const { app } = this;
    const row = app.reader.read(this.text.value);
    this.message.classList.toggle("error", Boolean(row.error) && this.text.value.trim() !== "");
    this.message.textContent = row.error ?? "";
    if (row.error) return;
    const path = app.tree.walk(row.x);
    const left = app.summary.features.names.length - row.given;
    this.message.textContent = left ? `${plural(row.given, "feature")} given, ${count(left)} left out.` : `All ${plural(row.given, "feature")} given.`;
    this.select.value = "";
    app.follow({ sample: null, x: row.x, path, prediction: app.tree.predict(path.nodes[path.nodes.length - 1], row.x) });
  }

  clear() {
    this.select.value = "";
    this.text.value = "";
    this.message.textContent = "";
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
    const right = summary.classes && sample && sample.target !== null && bestClass(row.prediction) === sample.target;
    const tag = summary.classes ? h("i", { class: "swatch", style: { background: classColour(bestClass(row.prediction)) } }) : null;
    this.result.replaceChildren(
      ...[sample?.drawing ? picture(sample.drawing, sample.name) : null,
        h("span", {}, "ends in ", h("button", { type: "button", class: "link", onclick: () => app.view.select(leaf) }, `leaf ${leaf}`)),
        h("span", {}, "predicted ", tag, h("b", {}, predictionText(summary, row.prediction))),
        target === null || target === undefined ? null : h("span", {}, "observed ", targetMark(summary, sample), h("b", {}, target), summary.classes ? (right ? " ✓" : " ✗") : "")].filter(Boolean));
  }
}

function optionText(summary, sample) {
  const target = targetText(summary, sample);
  return short(sample.name, 60) + (target === null ? "" : ` · ${short(target, 24)}`);
}
