// A tree: its arrays, the way of a row through it, and what a node is called.

const TERMS = 3; // of a question that are shown with their numbers
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

class Tree {
  /** `signs`: branches are called by ≥ and <, where yes and no are classes. */
  constructor(data, names, signs = false) {
    Object.assign(this, {
      data,
      signs,
      names,
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

  /** A split by a set of a category's levels, "colour in {red, green}": {words, sides}. */
  set(node) {
    return this.data.sets?.[node] ?? null;
  }

  /** What a split asks: "age ≥ 12", or its strongest terms with their numbers: "2 × age − 0.5 × fare + 3 more ≥ 7". */
  question(node, most = TERMS) {
    const { total } = this.weights.row(node);
    if (this.set(node)) return this.set(node).words;
    if (total === 0) return this.data.biases[node] >= 0 ? "always yes" : "always no";
    const { terms, rest } = this.terms(node, most);
    if (total === 1) return `${terms[0].name} ${this.condition(node)}`;
    const words = terms.map(({ sign, factor, name }, i) => `${i || sign === MINUS ? `${sign} ` : ""}${factor}${name}`);
    return `${words.join(" ")}${rest ? ` + ${count(rest)} more` : ""} ${this.bound(node)}`;
  }

  /** The strongest terms of a split: {sign, factor, name, value}, and how many more there are. */
  terms(node, most = TERMS) {
    const { features, values, total } = this.weights.row(node);
    const shown = total <= most + 1 ? Math.min(total, features.length) : most;
    const terms = [];
    for (let i = 0; i < shown; i += 1) {
      const size = brief(Math.abs(values[i]));
      terms.push({ sign: values[i] < 0 ? MINUS : "+", factor: size === "1" ? "" : `${size} × `, name: this.names[features[i]], value: values[i] });
    }
    return { terms, rest: total - shown };
  }

  /** The formula of a linear leaf of one output: "0.5 + 2 × age − 0.3 × fare + 3 more". */
  leafFormula(node, most) {
    const j = node - this.nSplits;
    const { features, values, total } = this.leafWeights.row(j);
    const words = [brief(this.data.values[j][0])];
    const shown = total <= most + 1 ? Math.min(total, features.length) : most;
    for (let i = 0; i < shown; i += 1) words.push(`${values[i] < 0 ? MINUS : "+"} ${brief(Math.abs(values[i]))} × ${this.names[features[i]]}`);
    return words.join(" ") + (total > shown ? ` + ${count(total - shown)} more` : "");
  }

  /** "≥ 12": what the sum of the terms must reach for a yes. */
  bound(node) {
    return `≥ ${brief(-this.data.biases[node])}`;
  }

  /** "≥ 12" of a split that weighs one feature. */
  condition(node) {
    const { values } = this.weights.row(node);
    return `${values[0] > 0 ? "≥" : "≤"} ${brief(-this.data.biases[node] / values[0])}`;
  }

  /** A score in the terms of the split: the value of the feature where it weighs only one. */
  reading(node, score) {
    const { values, total } = this.weights.row(node);
    if (this.set(node)) return null;
    return total === 1 ? brief((score - this.data.biases[node]) / values[0]) : withSign(score);
  }

  /** A split's answer on the way to its first (0) or second (1) child. */
  sideName(node, side) {
    const { values, total } = this.weights.row(node);
    if (!this.signs || total === 0) return ["no", "yes"][side];
    if (this.set(node)) return this.set(node).sides[side];
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
