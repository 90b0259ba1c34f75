// Search a feature: the splits that it moves, the strongest first.

const SUGGESTIONS = 8;

class Search {
  constructor(app) {
    Object.assign(this, { app, input: byId("search"), list: byId("search-list"), found: [], at: -1, active: -1 });
    this.input.addEventListener("input", () => this.run());
    this.input.addEventListener("keydown", (event) => this.key(event));
    this.input.addEventListener("blur", () => this.offer([]));
    byId("search-next").addEventListener("click", () => this.step(1));
    byId("search-previous").addEventListener("click", () => this.step(-1));
  }

  /** Find the splits of every feature whose name holds the text (or is `exact`ly it). */
  run(exact = false) {
    const text = this.input.value.trim().toLowerCase();
    const { names } = this.app.summary.features;
    const index = this.app.tree.featureIndex(this.app.summary.features.scale);
    const fits = (name) => (exact ? name === this.input.value : name.toLowerCase().includes(text));
    const features = text ? [...index.keys()].filter((j) => fits(names[j])) : [];
    features.sort((a, b) => index.get(b).length - index.get(a).length || a - b);
    const shares = new Map(); // of several features that fit, their effects add up
    for (const { node, share } of features.flatMap((j) => index.get(j))) shares.set(node, (shares.get(node) ?? 0) + share);
    this.found = [...shares.keys()].sort((a, b) => shares.get(b) - shares.get(a) || a - b);
    this.at = -1;
    this.app.view.hits = shares;
    this.app.view.refresh();
    this.offer(exact ? [] : features.slice(0, SUGGESTIONS));
    byId("search-steps").hidden = !text;
    this.say(features.length);
  }

  say(nFeatures) {
    const known = this.found.length > 0;
    byId("search-next").disabled = !known;
    byId("search-previous").disabled = !known;
    const where = this.at < 0 ? plural(this.found.length, "node") : `${this.at + 1} of ${plural(this.found.length, "node")}`;
    const many = nFeatures > 1 ? `, ${plural(nFeatures, "feature")}` : "";
    const share = this.at < 0 ? "" : `, ${percent(this.app.view.hits.get(this.found[this.at]))} of its effect`;
    byId("search-status").textContent = known ? `${where}${many}${share || ", strongest first"}` : "it moves no node";
  }

  offer(features) {
    const { names } = this.app.summary.features;
    const index = this.app.tree?.featureIndex(this.app.summary.features.scale);
    this.active = -1;
    this.list.hidden = features.length < 2;
    this.input.setAttribute("aria-expanded", String(!this.list.hidden));
    this.input.removeAttribute("aria-activedescendant");
    this.list.replaceChildren(...features.map((j, i) => h("li", {
      role: "option", id: `search-option-${i}`, "aria-selected": "false", "data-feature": j,
      onpointerdown: (event) => {
        event.preventDefault();
        this.choose(j);
      },
    }, h("span", {}, names[j]), h("span", { class: "muted number" }, plural(index.get(j).length, "node")))));
  }

  choose(feature) {
    this.input.value = this.app.summary.features.names[feature];
    this.run(true);
    this.step(1);
  }

  step(by) {
    if (!this.found.length) return;
    const n = this.found.length;
    this.at = this.at < 0 && by < 0 ? n - 1 : (this.at + by + n) % n;
    this.app.view.select(this.found[this.at]);
    this.say(1);
  }

  key(event) {
    const options = [...this.list.children];
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      if (this.list.hidden) return;
      event.preventDefault();
      this.active = (this.active + (event.key === "ArrowDown" ? 1 : -1) + options.length) % options.length;
      options.forEach((option, i) => option.setAttribute("aria-selected", String(i === this.active)));
      this.input.setAttribute("aria-activedescendant", options[this.active].id);
    } else if (event.key === "Enter") {
      event.preventDefault();
      if (this.active >= 0 && !this.list.hidden) this.choose(Number(options[this.active].dataset.feature));
      else this.step(event.shiftKey ? -1 : 1);
    } else if (event.key === "Escape") {
      this.input.value = "";
      this.run();
    }
  }
}
