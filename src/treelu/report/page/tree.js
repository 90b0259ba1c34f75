// A tree: its arrays, the way of a row through it, and what a node is called.

const TERMS = 3; // of a question that are shown with their numbers
const POINTS = 6; // categories of a column that are shown with theirs
const LEAST_SHARE = 0.05; // of a split's effect, for a search to find it

function decode(text, Type) {
  const binary = atob(text);
  const bytes = new Uint8Array(binary.length);
  for (let i = 0; i < binary.length; i += 1) bytes[i] = binary.charCodeAt(i);
  return new Type(bytes.buffer);
}

/** Rows of weights, strongest first, unpacked when first asked for. */
class Weights {
  constructor(packed) {
    this.packed = packed;
  }

  row(i) {
    this.features ??= decode(this.packed.features, Uint32Array);
    this.values ??= decode(this.packed.values, Float64Array);
    const [start, end] = [this.packed.offsets[i], this.packed.offsets[i + 1]];
    return {
      features: this.features.subarray(start, end),
      values: this.values.subarray(start, end),
      total: this.packed.counts[i],
    };
  }

  dot(i, x) {
    const { features, values } = this.row(i);
    let sum = 0;
    for (let j = 0; j < features.length; j += 1) sum += values[j] * x[features[j]];
    return sum;
  }
}

/** For each feature of a column of categories {column, category, others}: its name, the category, and any other in words. */
function categoriesOf({ groups }) {
  const found = new Map();
  for (const { name, features, categories } of groups) {
    features.forEach((feature, i) => {
      const others = categories.length === 2 ? categories[1 - i] : `not ${categories[i]}`;
      found.set(feature, { column: name, category: categories[i], others });
    });
  }
  return found;
}

/** What the branches of a split by a set are called: "is not" and "is" for the condition "is red". */
function setSides(condition) {
  const [word, other] = condition.startsWith("is") ? ["is", "is not"] : ["in", "not in"];
  return condition.startsWith(`${other} `) ? [word, other] : [other, word];
}

class Tree {
  /**
   * `signs`: branches are called by ≥ and <, where yes and no are classes. `flip`: log-odds are shown for the first class,
   * which is the positive one.
   */
  constructor(data, features, { signs = false, flip = false } = {}) {
    Object.assign(this, {
      data,
      signs,
      flip,
      names: features.names,
      short: features.short, // of long names
      scale: features.scale,
      categories: categoriesOf(features),
      nSplits: data.n_splits,
      nNodes: 2 * data.n_splits + 1,
      nLeaves: data.n_splits + 1,
      children: data.children,
      weights: new Weights(data.weights),
      leafWeights: data.leaf_weights && new Weights(data.leaf_weights),
    });
    this.parent = new Int32Array(this.nNodes).fill(-1);
    this.depth = new Int32Array(this.nNodes);
    this.leavesUnder = new Int32Array(this.nNodes).fill(1);
    // A parent has a lower number than its children.
    for (let node = 0; node < this.nSplits; node += 1) {
      for (const child of this.children[node]) {
        this.parent[child] = node;
        this.depth[child] = this.depth[node] + 1;
      }
    }
    for (let node = this.nSplits - 1; node >= 0; node -= 1) {
      const [left, right] = this.children[node];
      this.leavesUnder[node] = this.leavesUnder[left] + this.leavesUnder[right];
    }
  }

  isLeaf(node) {
    return node >= this.nSplits;
  }

  leaf(node) {
    return this.data.leaves[node - this.nSplits];
  }

  rowsAt(node) {
    return this.data.n ? this.data.n[node] : null;
  }

  /** The weight of the training rows at a node, where it is not their number. */
  weightAt(node) {
    return this.data.weight ? this.data.weight[node] : null;
  }

  ancestors(node) {
    const result = [];
    for (let at = this.parent[node]; at >= 0; at = this.parent[at]) result.unshift(at);
    return result;
  }

  score(node, x) {
    return this.weights.dot(node, x) + this.data.biases[node];
  }

  /** The nodes that x passes and its score at each split: yes where the score is at least 0. */
  walk(x) {
    const nodes = [0];
    const scores = [];
    for (let node = 0; !this.isLeaf(node); ) {
      const value = this.score(node, x);
      scores.push(value);
      node = this.children[node][value >= 0 ? 1 : 0];
      nodes.push(node);
    }
    return { nodes, scores };
  }

  /** Probabilities of the classes, or [value], that leaf `node` gives x. */
  predict(node, x) {
    if (!this.leafWeights) return this.leaf(node).prediction;
    const j = node - this.nSplits;
    const outputs = this.data.values[j].map((v, k) => v + this.leafWeights.dot(j * this.data.values[j].length + k, x));
    if (this.data.link === "logistic") return [1 / (1 + Math.exp(outputs[0])), 1 / (1 + Math.exp(-outputs[0]))];
    if (this.data.link !== "softmax") return outputs;
    const top = Math.max(...outputs);
    const powers = outputs.map((v) => Math.exp(v - top));
    const sum = powers.reduce((a, b) => a + b, 0);
    return powers.map((v) => v / sum);
  }

  /** What a split asks: "age ≥ 12", or its strongest terms with their numbers: "2 × age − 0.5 × fare + 3 more ≥ 7". */
  question(node, most = TERMS) {
    const { total } = this.weights.row(node);
    if (total === 0) return this.data.biases[node] >= 0 ? "always yes" : "always no";
    const { terms, rest } = this.terms(node, most);
    if (total === 1 || this.data.sets[node]) return this.single(node).join(" ");
    const words = terms.map(({ sign, factor, name }, i) => `${i || sign === MINUS ? `${sign} ` : ""}${factor}${name}`);
    return `${words.join(" ")}${rest ? ` + ${count(rest)} more` : ""} ${this.bound(node)}`;
  }

  /** The strongest terms of a split: {sign, factor, name, short}, and how many more there are. */
  terms(node, most = TERMS) {
    return this.strongest(this.weights.row(node), most);
  }

  /** The strongest terms of some weights; the categories of a column are one: "colour: red +2, blue −1". */
  strongest({ features, values, total }, most, sign = 1) {
    const parts = new Map();
    features.forEach((feature, i) => {
      const column = this.categories.get(feature)?.column;
      const key = column === undefined ? feature : `=${column}`;
      const part = parts.get(key) ?? parts.set(key, { column, members: [], effect: 0 }).get(key);
      part.members.push({ feature, value: sign * values[i] });
      part.effect += Math.abs(values[i]) * (this.scale[feature] || 0);
    });
    const found = [...parts.values()].sort((a, b) => b.effect - a.effect); // equal ones stay in their order
    const hidden = total - features.length;
    const shown = found.length + hidden <= most + 1 ? found.length : most;
    return { terms: found.slice(0, shown).map((part) => this.term(part)), rest: Math.max(0, found.length - shown) + hidden };
  }

  term({ column, members }) {
    if (members.length > 1) {
      const points = members.slice(0, POINTS).map(({ feature, value }) => `${this.categories.get(feature).category}\u00a0${withSign(value)}`);
      const more = members.length - points.length;
      return { sign: "+", factor: "", name: `${column}: ${points.join(", ")}${more ? `, ${count(more)} more` : ""}` };
    }
    const [{ feature, value }] = members;
    const size = brief(Math.abs(value));
    return { sign: value < 0 ? MINUS : "+", factor: size === "1" ? "" : `${size} × `, name: this.names[feature], short: this.short[feature] };
  }

  /** The formula of a linear leaf of one output: "0.5 + 2 × age − 0.3 × fare + 3 more". */
  leafFormula(node, most) {
    const j = node - this.nSplits;
    const sign = this.flip ? -1 : 1;
    const { terms, rest } = this.strongest(this.leafWeights.row(j), most, sign);
    const words = terms.map((term) => `${term.sign} ${term.factor || (term.name.includes(": ") ? "" : "1 × ")}${term.name}`);
    return [brief(sign * this.data.values[j][0]), ...words].join(" ") + (rest ? ` + ${count(rest)} more` : "");
  }

  /** "≥ 12": what the sum of the terms must reach for a yes. */
  bound(node) {
    return `≥ ${brief(-this.data.biases[node])}`;
  }

  /** A split that weighs one feature, or one column's categories, and its condition: ["age", "≥ 12"], ["colour", "is red"]. */
  single(node) {
    const { features, values } = this.weights.row(node);
    if (this.data.sets[node]) return this.data.sets[node];
    return [this.names[features[0]], `${values[0] > 0 ? "≥" : "≤"} ${brief(-this.data.biases[node] / values[0])}`];
  }

  /** A score in the terms of the split: the value of the feature where it weighs only one. */
  reading(node, score) {
    const { values, total } = this.weights.row(node);
    if (this.data.sets[node]) return score >= 0 ? "yes" : "no";
    return total === 1 ? brief((score - this.data.biases[node]) / values[0]) : withSign(score);
  }

  /** A split's answer on the way to its first (0) or second (1) child. */
  sideName(node, side) {
    const { values, total } = this.weights.row(node);
    if (!this.signs || total === 0) return ["no", "yes"][side];
    if (this.data.sets[node]) return setSides(this.data.sets[node][1])[side];
    return (total === 1 && values[0] < 0 ? [">", "≤"] : ["<", "≥"])[side];
  }

  /** Features that move some split clearly → [{node, share}], strongest first: the share of the split's effect that is theirs. */
  featureIndex(scale) {
    if (this.index) return this.index;
    this.index = new Map();
    for (let node = 0; node < this.nSplits; node += 1) {
      const { features, values } = this.weights.row(node);
      const effects = Array.from(values, (value, i) => Math.abs(value) * (scale[features[i]] || 0));
      const total = effects.reduce((sum, effect) => sum + effect, 0);
      features.forEach((feature, i) => {
        const share = total ? effects[i] / total : 1 / features.length;
        if (share < LEAST_SHARE) return;
        if (!this.index.has(feature)) this.index.set(feature, []);
        this.index.get(feature).push({ node, share });
      });
    }
    for (const hits of this.index.values()) hits.sort((a, b) => b.share - a.share || a.node - b.node);
    return this.index;
  }
}
