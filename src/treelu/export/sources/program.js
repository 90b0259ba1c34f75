@HEADER@
//
// predict(row) takes an object with a property for each column: numbers, texts, null where one is missing.

const BLANKS = new Set(@BLANKS@);
// name, kind, texts that count as missing, how numbers or dates are written, or the categories that numbers stand for,
// whether a missing value is refused, because no training row had one
const COLUMNS = [
@COLUMNS@];
// kind, column, what it is compared with or filled with
const FEATURES = [
@FEATURES@];
// for each tree its splits: terms (feature, weight, ...), bias, next node if the sum is below 0, otherwise
const SPLITS = [
@SPLITS@];
// for each tree the outputs of its leaves
const LEAVES = [
@LEAVES@];
// for each tree with linear leaves the terms of each output of each leaf
const LINEAR = [
@LINEAR@];
const PARTS = [
@PARTS@];
// names of the columns; then rows, leaves, number of the class, outputs
const EXAMPLES = [
@EXAMPLES@];

function readText(value, missing) {
  if (value === null || value === undefined || Number.isNaN(value)) return null;
  const text = String(value);
  let start = 0;
  let end = text.length;
  while (start < end && BLANKS.has(text[start])) start += 1;
  while (end > start && BLANKS.has(text[end - 1])) end -= 1;
  const kept = text.slice(start, end);
  return kept === "" || missing.includes(kept) ? null : kept;
}

// A text; a number 120 may stand for the category 120.0.
function readCategory(name, value, missing, codes) {
  const text = readText(value, missing);
  return codes !== null && typeof value === "number" && codes.has(text) ? codes.get(text) : text;
}

// A text as a number, null where it is none.
function writtenNumber(text, style) {
  const [decimal, thousands, marks] = style ?? [".", "", []];
  let core = text.replace(/[\u00a0\u202f\u2009]/g, " ").replace(/\u2212/g, "-").replace(/\u2019/g, "'").trim();
  for (const mark of marks) {
    const exactMark = [...mark].map((char) => char.replace(/[.*+?^${}()|[\]\\/]/g, "\\$&")).join("");
    const before = core.replace(new RegExp(`^([-+(]*\\s*)${exactMark}`), "$1");
    core = before === core ? core.replace(new RegExp(`${exactMark}(\\s*\\)?)$`), "$1") : before;
  }
  core = core.trim();
  if (core.startsWith("(") && core.endsWith(")")) core = `-${core.slice(1, -1).trim()}`;
  core = core.replace(/^([-+])\s+/, "$1");
  const exact = (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`;
  const groups = thousands === "" ? "" : `|\\d{1,3}(?:${exact(thousands)}\\d{3})+`;
  const point = exact(decimal);
  const whole = `^[-+]?(?:(?:\\d+${groups})(?:${point}\\d*)?|${point}\\d+)(?:[eE][-+]?\\d+)?$`;
  if (!new RegExp(whole).test(core)) return null;
  if (thousands !== "") core = core.split(thousands).join("");
  return Number(core.replace(decimal, "."));
}

function readNumber(name, value, missing, style) {
  let number = value;
  if (typeof value === "string") {
    const text = readText(value, missing);
    if (text === null) return null;
    const lower = text.toLowerCase();
    number = lower === "true" ? 1 : lower === "false" ? 0 : writtenNumber(text, style);
    if (number === null) throw new TypeError(`column ${JSON.stringify(name)}: ${JSON.stringify(value)} is not a number`);
  } else if (typeof value === "boolean" || typeof value === "bigint") number = Number(value);
  if (number === null || number === undefined || Number.isNaN(number)) return null;
  if (typeof number !== "number") throw new TypeError(`column ${JSON.stringify(name)}: not a number`);
  if (!Number.isFinite(number)) throw new RangeError(`column ${JSON.stringify(name)}: infinity; null if it is unknown`);
  return number;
}

const MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const ISO = [/^(\d{4})-(\d{2})-(\d{2})(?:[T ](\d{2}):(\d{2})(?::(\d{2})(?:\.(\d{1,6}))?)?(Z|[-+]\d{2}:?\d{2})?)?$/, "YmdHMSfz"];

// A text as microseconds since 1970 in UTC, null where it is no date.
function writtenDate(text, [pattern, letters]) {
  const found = pattern.exec(text);
  if (found === null) return null;
  const parts = Object.fromEntries([...letters].map((letter, place) => [letter, found[place + 1]]));
  const number = (letter, otherwise) => (parts[letter] === undefined ? otherwise : Number(parts[letter]));
  const short = number("y", 0);
  const year = number("Y", short < 69 ? 2000 + short : 1900 + short);
  const word = parts.b ?? parts.B;
  const month = word === undefined ? number("m", 1) - 1 : MONTHS.indexOf(word.slice(0, 3).toLowerCase());
  const half = parts.p === undefined ? 0 : parts.p.toLowerCase() === "pm" ? 12 : 0;
  const hour = parts.I === undefined ? number("H", 0) : (number("I", 0) % 12) + half;
  const [minute, second] = [number("M", 0), number("S", 0)];
  const moment = new Date(0);
  moment.setUTCFullYear(year, month, number("d", 1));
  if (month < 0 || moment.getUTCMonth() !== month || moment.getUTCDate() !== number("d", 1)) return null;
  if (hour > 23 || minute > 59 || second > 59) return null;
  if (parts.I !== undefined && (number("I") < 1 || number("I") > 12)) return null;
  const zone = /^([-+])(\d{2}):?(\d{2})$/.exec(parts.z ?? "");
  const ahead = zone === null ? 0 : Number(`${zone[1]}1`) * (Number(zone[2]) * 60 + Number(zone[3]));
  const seconds = moment.getTime() / 1000 + hour * 3600 + (minute - ahead) * 60 + second;
  return seconds * 1e6 + Number((parts.f ?? "0").padEnd(6, "0"));
}

function readDate(name, value, missing, style) {
  if (value instanceof Date) return Number.isNaN(value.getTime()) ? null : value.getTime() * 1000;
  const text = readText(value, missing);
  if (text === null) return null;
  const moment = (style === null ? null : writtenDate(text, style)) ?? writtenDate(text, ISO);
  if (moment === null) throw new TypeError(`column ${JSON.stringify(name)}: ${JSON.stringify(value)} is not a date`);
  if (style !== null && !/[HI]/.test(style[1]) && moment % 86400000000 !== 0) {
    throw new TypeError(`column ${JSON.stringify(name)}: ${JSON.stringify(value)} has a time of day, in a column of plain dates`);
  }
  return moment;
}

function datePart(moment, part) {
  if (part === "days since 1970") return moment / 86400000000;
  const date = new Date(Math.floor(moment / 1000));
  if (part === "year") return date.getUTCFullYear();
  if (part === "month") return date.getUTCMonth() + 1;
  return part === "hour" ? date.getUTCHours() : ((date.getUTCDay() + 6) % 7) + 1;
}

const READERS = { number: readNumber, text: readCategory, date: readDate };

/** The features that the trees ask about; NaN where a value is missing and nothing stands in for it. */
export function encode(row) {
  const cells = COLUMNS.map(([name, kind, missing, style, required]) => {
    if (!Object.prototype.hasOwnProperty.call(row, name)) {
      throw new TypeError(`the row has no column ${JSON.stringify(name)}`);
    }
    const cell = READERS[kind](name, row[name], missing, style);
    if (required && cell === null) {
      throw new TypeError(`column ${JSON.stringify(name)}: a missing value, which no training row had`);
    }
    return cell;
  });
  return FEATURES.map(([kind, column, other, fill]) => {
    const cell = cells[column];
    if (kind === "number") return cell === null ? other : cell;
    if (kind === "missing") return cell === null ? 1 : 0;
    if (kind === "category") return cell === other ? 1 : 0;
    if (kind === "date") return cell === null ? fill : datePart(cell, other);
    return cell === null || other.includes(cell) ? 0 : 1;
  });
}

function sum(terms, last, x) {
  if (terms.length === 0) return last;
  let total = terms[1] * x[terms[0]];
  for (let i = 2; i < terms.length; i += 2) total += terms[i + 1] * x[terms[i]];
  return total + last;
}

function route(tree, x) {
  const splits = SPLITS[tree];
  let node = 0;
  while (node < splits.length) {
    const [terms, bias, left, right] = splits[node];
    const score = sum(terms, bias, x);
    if (!Number.isFinite(score)) {
      throw new RangeError("a number that the tree asks for is missing, or the numbers are too large to add up");
    }
    node = score >= 0 ? right : left;
  }
  return node;
}

/** The number of the leaf that the row reaches in each tree. */
export function apply(row) {
  const x = encode(row);
  return SPLITS.map((_, tree) => route(tree, x));
}

function leafOutputs(tree, leaf, x) {
  const values = LEAVES[tree][leaf];
  if (LINEAR[tree].length === 0) return values;
  const sums = values.map((value, output) => sum(LINEAR[tree][leaf][output], value, x));
  if (!sums.every(Number.isFinite)) {
    throw new RangeError("a number that the tree asks for is missing, or the numbers are too large to add up");
  }
  return sums;
}

function probabilities(link, scores) {
  if (link === "logistic") {
    const small = Math.exp(-Math.abs(scores[0]));
    const low = small / (1 + small);
    const high = 1 / (1 + small);
    return scores[0] > 0 ? [low, high] : [high, low];
  }
  if (link === "softmax") {
    const largest = scores.reduce((a, b) => Math.max(a, b));
    const parts = scores.map((score) => Math.exp(score - largest));
    const whole = parts.reduce((a, b) => a + b);
    return parts.map((part) => part / whole);
  }
  return scores;
}

function answerPart(part, x) {
  let leaf = route(part.first, x) - SPLITS[part.first].length;
  let scores = leafOutputs(part.first, leaf, x);
  if (part.link === "lookup") return [part.leafLabels === null ? null : part.leafLabels[leaf], scores];
  for (let tree = part.first + 1; tree < part.first + part.count; tree += 1) {
    leaf = route(tree, x) - SPLITS[tree].length;
    const more = leafOutputs(tree, leaf, x);
    scores = scores.map((score, output) => score + more[output]);
  }
  if (part.mean) scores = scores.map((score) => score / part.count);
  let label = part.link === "logistic" ? Number(scores[0] > 0) : scores.indexOf(scores.reduce((a, b) => Math.max(a, b)));
  const outputs = probabilities(part.link, scores);
  if (part.threshold !== null) {
    const [positive, least] = part.threshold;
    label = outputs[positive] >= least ? positive : 1 - positive;
  }
  return [label, part.only === null ? outputs : [outputs[part.only]]];
}

/** The answers by name: the class as "prediction" and probabilities, or values. */
export function predict(row) {
  const x = encode(row);
  const answers = [];
  for (const part of PARTS) {
    const [label, outputs] = answerPart(part, x);
    if (part.classes !== null) answers.push(["prediction", part.classes[label]]);
    part.names.forEach((name, output) => answers.push([name, outputs[output]]));
  }
  return Object.fromEntries(answers);
}

/** The number of example rows whose leaf or answer is not the expected one. */
export function selfTest() {
  const [names, ...examples] = EXAMPLES;
  let failures = 0;
  for (const [cells, leaves, label, outputs] of examples) {
    const row = Object.fromEntries(names.map((name, place) => [name, cells[place]]));
    const found = PARTS.map((part) => answerPart(part, encode(row)));
    const numbers = found.flatMap(([, values]) => values);
    const close = numbers.every((value, place) => Math.abs(value - outputs[place]) <= 1e-9 * (1 + Math.abs(outputs[place])));
    const same = apply(row).every((leaf, tree) => leaf === leaves[tree]);
    if (!close || !same || (label !== null && found[0][0] !== label)) failures += 1;
  }
  return failures;
}
