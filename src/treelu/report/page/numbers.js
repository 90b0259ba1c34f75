// Numbers as people read them.

const MINUS = "\u2212";
const signed = (text) => text.replace("-", MINUS);
const counting = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });

const count = (value) => signed(counting.format(value));
/** A number with so many decimals; thousands are marked. */
const marked = (value, decimals) => signed(value.toLocaleString("en", { minimumFractionDigits: decimals, maximumFractionDigits: decimals }));
const plural = (n, one, many = `${one}s`) => `${count(n)} ${n === 1 ? one : many}`;

/** About `digits` significant digits, without exponents where a plain number is short; thousands are marked. */
function brief(value, digits = 3) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 1e9 || size < 1e-4) return signed(value.toExponential(digits - 1).replace("e+", "e"));
  if (size >= 1e6) return signed(`${Number((value / 1e6).toPrecision(digits + 1))}\u00a0M`);
  if (size >= 1e4) return count(Number(value.toPrecision(digits + 2)));
  const decimals = Math.max(0, digits - 1 - Math.floor(Math.log10(size)));
  return signed(String(Number(value.toFixed(decimals))));
}

const withSign = (value, digits = 3) => (value > 0 ? "+" : "") + brief(value, digits);

/** Whole percent, but one decimal where that would say 0 or 100 of what is not. */
function percent(share, decimals = null) {
  if (share === null || share === undefined) return "–";
  const value = 100 * share;
  if (decimals !== null) return `${value.toFixed(decimals)} %`;
  if (value > 0 && value < 0.05) return "< 0.1 %";
  if (value < 100 && value >= 99.95) return "> 99.9 %";
  const edge = (value > 0 && value < 1) || (value > 99 && value < 100);
  return `${value.toFixed(edge ? 1 : 0)} %`;
}

/** A score: three decimals, fewer where `like`, the score it stands beside, is large. */
function score(value, like = value) {
  if (value === null || value === undefined) return "–";
  const size = Math.abs(like);
  return marked(value, size >= 1000 ? 0 : size >= 100 ? 1 : size >= 10 ? 2 : 3);
}

/** Decimals with which about a thousand steps fit between the lowest and the highest value. */
function decimalsFor(values) {
  const [low, high] = range(values, 0);
  return high > low ? Math.min(12, Math.max(0, 3 - Math.floor(Math.log10(high - low)))) : 3;
}

/** Some `n` round numbers that span [low, high]. */
function ticks(low, high, n = 5) {
  if (!(high > low)) return [low];
  const rough = (high - low) / n;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((m) => m * power).find((m) => m >= rough);
  const result = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high + step * 1e-9; i += 1) result.push(i * step);
  return result;
}

/** `text` cut to `length` characters. */
const short = (text, length = 60) => (text.length > length ? `${text.slice(0, length - 1)}…` : text);
