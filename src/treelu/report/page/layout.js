// Where the boxes of a tree go: the rule of treelu.view.layout once more, for branches that open and close.

/** Centres along the levels, in reading order: a parent half way between its children, no boxes overlapping. */
function layoutCentres(root, childrenOf, breadthOf, gap) {
  const order = [], open = [root]; // each node before its children, the first child before the second
  while (open.length) {
    order.push(open.pop());
    open.push(...[...childrenOf(order.at(-1))].reverse());
  }
  const before = new Map(), after = new Map(), apart = new Map();
  for (const node of [...order].reverse()) {
    const half = breadthOf(node) / 2;
    const [first, second] = childrenOf(node);
    if (first === undefined) {
      before.set(node, half);
      after.set(node, half);
      continue;
    }
    const distance = after.get(first) + gap + before.get(second);
    apart.set(node, distance);
    before.set(node, Math.max(half, distance / 2 + before.get(first)));
    after.set(node, Math.max(half, distance / 2 + after.get(second)));
  }
  const centres = new Map(order.map((node) => [node, before.get(root)]));
  for (const node of order) {
    childrenOf(node).forEach((child, side) => centres.set(child, centres.get(node) + (side - 0.5) * apart.get(node)));
  }
  return { centres, extent: before.get(root) + after.get(root) };
}
