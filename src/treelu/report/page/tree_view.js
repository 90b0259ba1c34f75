// The tree on the screen: layout, cards and edges, zoom and pan, collapse and expand, keyboard.

const CARD = { width: 208, height: 40, line: 17, drawn: 112, column: 268, gap: 10, drawnGap: 22, margin: 28 };
const OPEN_LEAVES = 32; // a tree of more leaves starts collapsed below OPEN_DEPTH
const OPEN_DEPTH = 3;
const PHONE_DEPTH = 2; // so that what is shown at first stays in one place
const PHONE = "(max-width: 560px)";
const MOST_CARDS = 1000;
const LARGEST_FIT = 1.25; // of a small tree
const LEAST_FIT = { desktop: 0.45, phone: 0.75 }; // of a large one at first: smaller cards cannot be read

class TreeView {
  constructor(tree, summary, onselect) {
    Object.assign(this, { tree, summary, onselect, scale: 1, selected: 0, path: null, hits: new Map() });
    this.viewport = byId("viewport");
    this.stage = byId("stage");
    this.edges = s("svg", { class: "edges", "aria-hidden": "true" });
    this.cards = new Map();
    this.expanded = new Set();
    if (window.matchMedia(PHONE).matches) this.expandTo(PHONE_DEPTH);
    else this.expandTo(tree.nLeaves <= OPEN_LEAVES ? tree.nSplits : OPEN_DEPTH);
  }

  // What is open

  expandTo(depth) {
    for (let node = 0; node < this.tree.nSplits; node += 1) {
      if (this.tree.depth[node] < depth) this.expanded.add(node);
    }
  }

  /** Open whole levels, as long as the cards stay few enough to handle. Returns whether all are open. */
  expandAll() {
    let cards = 1;
    for (let depth = 0; depth < this.tree.data.depth; depth += 1) {
      const level = [...Array(this.tree.nSplits).keys()].filter((node) => this.tree.depth[node] === depth);
      cards += 2 * level.length;
      if (cards > MOST_CARDS) return false;
      level.forEach((node) => this.expanded.add(node));
    }
    return true;
  }

  collapseAll() {
    this.expanded.clear();
    if (this.tree.nSplits) this.expanded.add(0);
    if (!this.isVisible(this.selected)) this.selected = 0;
  }

  toggle(node) {
    if (this.tree.isLeaf(node)) return;
    if (this.expanded.has(node)) this.expanded.delete(node);
    else this.expanded.add(node);
    if (!this.isVisible(this.selected)) this.selected = node;
    this.draw();
  }

  reveal(node) {
    this.tree.ancestors(node).forEach((above) => this.expanded.add(above));
  }

  isVisible(node) {
    return this.tree.ancestors(node).every((above) => this.expanded.has(above));
  }

  isOpen(node) {
    return !this.tree.isLeaf(node) && this.expanded.has(node);
  }

  /** Splits that weigh several features name two of them, on two lines, or draw them. */
  heightOf(node) {
    if (this.tree.isLeaf(node)) return CARD.height + (this.tree.leafWeights ? CARD.line : 0);
    if (cardDrawings(this.summary, this.tree, node).length) return CARD.drawn;
    const strip = this.tree.data.histograms?.[node] ? STRIP + 2 : 0;
    return CARD.height + strip + CARD.line * (splitHeight(this.tree, node) - 1);
  }

  /** Levels from left to right; along them the boxes as layout.js places them. */
  layout() {
    const drawn = Object.keys(this.summary.features.drawings).length > 0;
    const heights = new Map();
    const heightOf = (node) => heights.get(node) ?? heights.set(node, this.heightOf(node)).get(node);
    const childrenOf = (node) => (this.isOpen(node) ? this.tree.children[node] : []);
    const { centres, extent } = layoutCentres(0, childrenOf, heightOf, drawn ? CARD.drawnGap : CARD.gap);
    this.places = new Map([...centres].map(([node, centre]) => [node, {
      x: CARD.margin + this.tree.depth[node] * CARD.column,
      y: CARD.margin + centre, // of the middle
      height: heightOf(node),
    }]));
    const deepest = Math.max(...[...this.places.values()].map((at) => at.x));
    this.width = deepest + CARD.width + 60 + CARD.margin;
    this.height = extent + 2 * CARD.margin;
  }

  draw() {
    this.layout();
    for (const [node, card] of this.cards) {
      if (!this.places.has(node)) {
        card.remove();
        this.cards.delete(node);
      }
    }
    const cards = [...this.places.keys()].map((node) => this.cards.get(node) ?? this.makeCard(node));
    this.stage.replaceChildren(this.edges, ...cards);
    this.drawEdges();
    this.refresh();
    this.resize();
  }

  drawEdges() {
    const total = this.tree.rowsAt(0);
    const shapes = [[], [], []]; // lit edges above the others, labels above both
    for (const [node, to] of this.places) {
      const parent = this.tree.parent[node];
      if (parent < 0) continue;
      const from = this.places.get(parent);
      const [x1, y1, x2, y2] = [from.x + CARD.width, from.y, to.x, to.y];
      const middle = x1 + 24 + (x2 - x1 - 24) / 2;
      const lit = this.path?.has(node) && this.path.has(parent);
      const share = total ? this.tree.rowsAt(node) / total : 0;
      shapes[lit ? 1 : 0].push(s("path", {
        class: lit ? "edge lit" : "edge",
        d: `M${x1} ${y1}H${x1 + 22}C${middle} ${y1} ${middle} ${y2} ${x2} ${y2}`,
        "stroke-width": Math.max(lit ? 2.5 : 1.25, 9 * share).toFixed(2),
      }));
      const side = this.tree.children[parent].indexOf(node);
      shapes[2].push(s("text", { class: lit ? "edge-label lit" : "edge-label", x: x2 - 5, y: side ? y2 + 13 : y2 - 6 }, this.tree.sideName(parent, side)));
    }
    this.edges.replaceChildren(...shapes.flat());
    fill(this.edges, { width: this.width, height: this.height }, []);
  }

  makeCard(node) {
    const { tree } = this;
    const leaf = tree.isLeaf(node);
    const card = h("div", {
      class: leaf ? "card leaf" : "card",
      role: "treeitem",
      "data-node": node,
      "aria-level": tree.depth[node] + 1,
      onclick: (event) => {
        if (event.target.closest(".toggle")) this.toggle(node);
        else this.select(node);
      },
      ondblclick: () => this.toggle(node),
      onfocus: () => this.selected === node || this.select(node),
    });
    card.append(...(leaf ? leafLines(this.summary, tree, node) : splitLines(this.summary, tree, node)));
    if (!leaf && !cardDrawings(this.summary, tree, node).length) card.append(nodeStrip(tree, node, CARD.width - 22) ?? "");
    card.append(h("span", { class: "line low" }, nodeStack(this.summary, tree, node),
      tree.rowsAt(node) === null ? null : h("span", { class: "rows number" }, count(tree.rowsAt(node)))));
    if (leaf) card.style.setProperty("--tint", leafColour(this.summary, tree, node));
    else card.append(h("span", { class: "toggle", "aria-hidden": "true" }));
    card.setAttribute("aria-label", nodeLabel(this.summary, tree, node));
    this.cards.set(node, card);
    return card;
  }

  /** Bring classes, states and places of the cards up to date. */
  refresh() {
    const hidden = new Set();
    for (const hit of this.hits.keys()) this.tree.ancestors(hit).forEach((above) => hidden.add(above));
    this.stage.classList.toggle("following", Boolean(this.path));
    this.stage.classList.toggle("searching", this.hits.size > 0);
    for (const [node, card] of this.cards) {
      const { x, y, height } = this.places.get(node);
      card.style.left = `${x}px`;
      card.style.top = `${y - height / 2}px`;
      card.style.height = `${height}px`;
      card.classList.toggle("lit", Boolean(this.path?.has(node)));
      card.classList.toggle("hit", this.hits.has(node));
      card.style.setProperty("--found-share", `${Math.round(12 + 48 * (this.hits.get(node) ?? 0))}%`);
      card.classList.toggle("hit-inside", !this.isOpen(node) && !this.hits.has(node) && hidden.has(node));
      card.setAttribute("aria-selected", String(node === this.selected));
      card.tabIndex = node === this.selected ? 0 : -1;
      if (this.tree.isLeaf(node)) continue;
      const open = this.isOpen(node);
      card.setAttribute("aria-expanded", String(open));
      const toggle = card.querySelector(".toggle");
      toggle.textContent = open ? MINUS : `+${count(this.tree.leavesUnder[node])}`;
      toggle.title = open ? "Collapse" : `Expand: ${plural(this.tree.leavesUnder[node], "leaf", "leaves")}`;
    }
  }

  select(node, { focus = false } = {}) {
    const hidden = !this.isVisible(node);
    this.selected = node;
    if (hidden) {
      this.reveal(node);
      this.draw();
    } else this.refresh();
    if (focus) this.cards.get(node).focus({ preventScroll: true });
    this.bringIntoView(node);
    this.onselect(node);
  }

  /** Light the path of a row (a list of nodes), or none. */
  follow(nodes) {
    this.path = nodes && new Set(nodes);
    if (nodes) this.reveal(nodes[nodes.length - 1]);
    this.draw();
    if (nodes) this.bringIntoView(nodes[nodes.length - 1]);
  }

  // Zoom and pan: the viewport scrolls by itself; zooming resizes what it scrolls over.

  resize() {
    const [w, t] = [this.width * this.scale, this.height * this.scale];
    const sizer = byId("sizer");
    sizer.style.width = `${w}px`;
    sizer.style.height = `${t}px`;
    this.stage.style.transform = `scale(${this.scale})`;
    this.stage.style.width = `${this.width}px`;
    this.stage.style.height = `${this.height}px`;
    byId("zoom").textContent = `${Math.round(100 * this.scale)} %`;
  }

  /** Zoom to `scale`, keeping the point (x, y) of the viewport where it is. */
  zoom(scale, x = this.viewport.clientWidth / 2, y = this.viewport.clientHeight / 2) {
    const ratio = Math.min(2.5, Math.max(0.1, scale)) / this.scale;
    const left = (this.viewport.scrollLeft + x) * ratio - x;
    const top = (this.viewport.scrollTop + y) * ratio - y;
    this.scale *= ratio;
    this.resize();
    this.viewport.scrollTo(left, top);
  }

  /** The first view of a tree. */
  fitAtFirst() {
    this.fit(window.matchMedia(PHONE).matches ? LEAST_FIT.phone : LEAST_FIT.desktop);
  }

  /** Show the whole tree, as large as the viewport allows, but not smaller than `least`. */
  fit(least = 0.1) {
    this.scale = 1;
    const wide = Math.max(least, Math.min(LARGEST_FIT, this.viewport.clientWidth / this.width));
    byId("workbench").style.setProperty("--needed", `${Math.ceil(this.height * wide) + 2}px`);
    this.resize(); // a viewport that is as high as its content measures itself at full size
    const room = [this.viewport.clientWidth / this.width, this.viewport.clientHeight / this.height];
    this.scale = Math.max(least, Math.min(LARGEST_FIT, ...room));
    this.resize();
    const root = this.places.get(0);
    this.viewport.scrollTo(0, root.y * this.scale - this.viewport.clientHeight / 2);
  }

  bringIntoView(node) {
    const { x, y, height } = this.places.get(node);
    const pad = 24;
    const box = this.viewport;
    const [left, right] = [x * this.scale - pad, (x + CARD.width) * this.scale + pad];
    const [top, bottom] = [(y - height / 2) * this.scale - pad, (y + height / 2) * this.scale + pad];
    if (left < box.scrollLeft) box.scrollLeft = left;
    else if (right > box.scrollLeft + box.clientWidth) box.scrollLeft = right - box.clientWidth;
    if (top < box.scrollTop || bottom > box.scrollTop + box.clientHeight) box.scrollTop = (top + bottom - box.clientHeight) / 2;
  }

  // Keyboard: the arrows of a tree view, which also point the way the tree grows.

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const node = this.selected;
    const order = [...this.places.keys()];
    const at = order.indexOf(node);
    const go = (to) => to !== undefined && to >= 0 && this.select(to, { focus: true });
    const actions = {
      ArrowDown: () => go(order[at + 1]),
      ArrowUp: () => go(order[at - 1]),
      ArrowRight: () => (this.tree.isLeaf(node) ? null : this.isOpen(node) ? go(this.tree.children[node][0]) : this.toggle(node)),
      ArrowLeft: () => (this.isOpen(node) ? this.toggle(node) : go(this.tree.parent[node])),
      Home: () => go(order[0]),
      End: () => go(order[order.length - 1]),
      Enter: () => this.toggle(node),
      " ": () => this.toggle(node),
      "+": () => this.zoom(this.scale * 1.25),
      "-": () => this.zoom(this.scale / 1.25),
    };
    if (!actions[event.key]) return;
    event.preventDefault();
    actions[event.key]();
    this.cards.get(this.selected).focus({ preventScroll: true });
  }
}

/** Mouse drag scrolls, Ctrl + wheel and two fingers zoom; one finger scrolls by itself. `view()` is the tree shown. */
function makeDraggable(viewport, view) {
  viewport.addEventListener("pointerdown", (event) => {
    if (event.pointerType !== "mouse" || event.button !== 0 || event.target.closest(".card")) return;
    viewport.setPointerCapture(event.pointerId);
    viewport.classList.add("dragging");
  });
  viewport.addEventListener("pointermove", (event) => {
    if (viewport.classList.contains("dragging")) viewport.scrollBy(-event.movementX, -event.movementY);
  });
  viewport.addEventListener("lostpointercapture", () => viewport.classList.remove("dragging"));
  const zoomAt = (scale, x, y) => {
    const box = viewport.getBoundingClientRect();
    view().zoom(scale, x - box.left, y - box.top);
  };
  viewport.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    zoomAt(view().scale * Math.exp(-event.deltaY / 300), event.clientX, event.clientY);
  }, { passive: false });
  let pinch = null; // spread of the fingers and scale at the start
  const spread = ([a, b]) => Math.hypot(a.clientX - b.clientX, a.clientY - b.clientY);
  viewport.addEventListener("touchstart", (event) => {
    pinch = event.touches.length === 2 ? { spread: spread(event.touches), scale: view().scale } : null;
    if (pinch) event.preventDefault();
  }, { passive: false });
  viewport.addEventListener("touchmove", (event) => {
    if (!pinch || event.touches.length !== 2) return;
    event.preventDefault();
    const [a, b] = event.touches;
    zoomAt((pinch.scale * spread([a, b])) / pinch.spread, (a.clientX + b.clientX) / 2, (a.clientY + b.clientY) / 2);
  }, { passive: false });
}
