// A table's own columns as features, by the recipes that training saved: numbers, texts and dates as people write them.

class RowError extends Error {}

const MISSING_NAME = "(missing)";
const OTHER_NAME = "(other)";
const PLAIN_NUMBERS = { decimal: ".", thousands: "", marks: [] };
const escaped = (text) => text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");

/** A text as a number, written in `style`; null where it is none. As NumberFormat.parse does. */
function parseNumber(text, style = PLAIN_NUMBERS) {
  let core = text.replace(/[\u00a0\u202f\u2009]/g, " ").replace(/\u2212/g, "-").replace(/\u2019/g, "'").trim();
  for (const mark of style.marks) {
    const before = core.replace(new RegExp(`^([-+(]*\\s*)${escaped(mark)}`), "$1");
    core = before === core ? core.replace(new RegExp(`${escaped(mark)}(\\s*\\)?)$`), "$1") : before;
  }
  core = core.trim();
  if (core.startsWith("(") && core.endsWith(")")) core = `-${core.slice(1, -1).trim()}`;
  core = core.replace(/^([-+])\s+/, "$1");
  const groups = style.thousands ? `|\\d{1,3}(?:${escaped(style.thousands)}\\d{3})+` : "";
  const point = escaped(style.decimal);
  const pattern = new RegExp(`^[-+]?(?:(?:\\d+${groups})(?:${point}\\d*)?|${point}\\d+)(?:[eE][-+]?\\d+)?$`);
  if (!pattern.test(core)) return null;
  return Number(core.replaceAll(style.thousands || "\0", "").replace(style.decimal, "."));
}

const MONTHS = ["january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november", "december"];
const DATE_PARTS = {
  "%Y": "(\\d{4})", "%y": "(\\d{2})", "%m": "(\\d{1,2})", "%d": "(\\d{1,2})", "%H": "(\\d{1,2})", "%I": "(\\d{1,2})", "%M": "(\\d{1,2})", "%S": "(\\d{1,2})",
  "%f": "(\\d{1,6})", "%p": "([AaPp][Mm])", "%b": "([A-Za-z]{3})", "%B": "([A-Za-z]+)", "%z": "(Z|[-+]\\d{2}:?\\d{2})",
};
const ISO_DATE = /^(\d{4})-(\d{1,2})-(\d{1,2})(?:[T ](\d{1,2}):(\d{2})(?::(\d{2})(?:\.(\d{1,6}))?)?(Z|[-+]\d{2}:?\d{2})?)?$/;

/** A text as days since 1970, written in a `strptime` format, or one of several with " | " between them (null: ISO 8601); null where it is none. */
function parseDate(text, format) {
  if (format?.includes(" | ")) {
    for (const one of format.split(" | ")) {
      const days = parseDate(text, one);
      if (days !== null) return days;
    }
    return null;
  }
  const found = {};
  if (format === null) {
    const match = ISO_DATE.exec(text.trim());
    if (!match) return null;
    ["%Y", "%m", "%d", "%H", "%M", "%S", "%f", "%z"].forEach((part, i) => {
      if (match[i + 1] !== undefined) found[part] = match[i + 1];
    });
  } else {
    const parts = [];
    const pattern = format.split(/(%[A-Za-z])/).map((piece) => {
      if (!DATE_PARTS[piece]) return escaped(piece);
      parts.push(piece);
      return DATE_PARTS[piece];
    }).join("");
    const match = new RegExp(`^${pattern}$`).exec(text.trim());
    if (!match) return null;
    parts.forEach((part, i) => {
      found[part] = match[i + 1];
    });
  }
  return dayNumber(found);
}

function dayNumber(found) {
  const short = Number(found["%y"]);
  const year = found["%Y"] === undefined ? (short < 69 ? 2000 : 1900) + short : Number(found["%Y"]);
  const name = (found["%b"] ?? found["%B"] ?? "").toLowerCase();
  const month = name ? 1 + MONTHS.findIndex((full) => (found["%b"] === undefined ? full === name : full.startsWith(name))) : Number(found["%m"]);
  const day = Number(found["%d"]);
  let hour = Number(found["%H"] ?? found["%I"] ?? 0);
  if (found["%p"] !== undefined) hour = (hour % 12) + (/p/i.test(found["%p"]) ? 12 : 0);
  const [minute, second] = [Number(found["%M"] ?? 0), Number(found["%S"] ?? 0)];
  const date = new Date(Date.UTC(year, month - 1, day));
  if (date.getUTCMonth() !== month - 1 || date.getUTCDate() !== day || hour > 23 || minute > 59 || second > 59) return null;
  const zone = /^([-+])(\d{2}):?(\d{2})$/.exec(found["%z"] ?? "");
  const offset = zone ? (zone[1] === "-" ? -1 : 1) * (60 * Number(zone[2]) + Number(zone[3])) : 0;
  const fraction = found["%f"] === undefined ? 0 : Number(`0.${found["%f"]}`);
  return (date.getTime() / 1000 + 3600 * hour + 60 * (minute - offset) + second + fraction) / 86400;
}

/** Parts of a date that is given as days since 1970. */
function dateParts(days, parts) {
  const date = new Date(Math.floor(days) * 86400000);
  const known = {
    year: date.getUTCFullYear(),
    month: date.getUTCMonth() + 1,
    "day of week": 1 + ((date.getUTCDay() + 6) % 7),
    hour: Math.floor(24 * (days - Math.floor(days)) + 1e-9),
    "days since 1970": days,
  };
  return parts.map((part) => known[part]);
}

/** Features of one column from the text of its cell (null: left out), and what was understood. */
const ENCODERS = {
  number(column, text) {
    const truth = { true: 1, false: 0 }[text?.toLowerCase()];
    const value = text === null || column.strays.includes(text) ? null : truth ?? parseNumber(text, column.style);
    if (value === null && text !== null && !column.strays.includes(text)) throw new RowError(`${short(column.name, 40)}: “${short(text, 20)}” is not a number.`);
    if (value !== null && !Number.isFinite(value)) throw new RowError(`${short(column.name, 40)}: the number is too large.`);
    const features = [value ?? column.median];
    if (column.indicator) features.push(value === null ? 1 : 0);
    return { features, said: value === null ? `missing (as ${brief(column.median)})` : brief(value, 6) };
  },

  text(column, text) {
    const width = column.categories.length + Number(column.other) + Number(column.missing);
    const features = new Array(width).fill(0);
    let place = text === null || text === MISSING_NAME ? -1 : column.categories.indexOf(text);
    let said = text ?? "missing";
    if (text === null || text === MISSING_NAME) {
      said = "missing";
      if (column.missing) place = width - 1;
    } else if (place < 0 && column.other) {
      place = column.categories.length;
      said = text === OTHER_NAME ? "another category" : `${text} (another category)`;
    } else if (place < 0) said = `${text} (not seen in training)`;
    if (place >= 0) features[place] = 1;
    return { features, said: short(said, 40) };
  },

  date(column, text) {
    let days = text === null || column.strays.includes(text) ? null : parseDate(text, column.format) ?? parseDate(text, null);
    const readings = days === null || column.order || !column.format ? [] : column.format.split(" | ").map((one) => parseDate(text, one));
    const other = readings.find((reading) => reading !== null && reading !== days);
    if (other !== undefined) throw new RowError(`${short(column.name, 40)}: “${short(text, 20)}” may be ${isoDate(days)} or ${isoDate(other)}; write one of these.`);
    if (days === null && text !== null && !column.strays.includes(text)) throw new RowError(`${short(column.name, 40)}: “${short(text, 20)}” is not a date${column.format ? ` like ${column.format}` : ""}.`);
    const missing = days === null;
    days ??= column.middle;
    const features = dateParts(days, column.parts);
    if (column.indicator) features.push(missing ? 1 : 0);
    return { features, said: missing ? "missing" : isoDate(days) };
  },
};

const isoDate = (days) => {
  const text = new Date(Math.round(days * 86400000)).toISOString();
  return Number.isInteger(days) ? text.slice(0, 10) : text.slice(0, 19);
};

/** The cell of a column that a listed row's features came from, as text. */
const DECODERS = {
  number: (column, [value, missing]) => (missing === 1 ? "" : (column.style ? String(value).replace(".", column.style.decimal) : String(value))),
  text(column, features) {
    const place = features.indexOf(1);
    if (place < 0) return "";
    if (place < column.categories.length) return column.categories[place];
    return place === column.categories.length && column.other ? OTHER_NAME : "";
  },
  date: (column, features) => (column.indicator && features[features.length - 1] === 1 ? "" : isoDate(features[column.parts.indexOf("days since 1970")])),
};

function widthOf(column) {
  if (column.kind === "number") return 1 + Number(column.indicator);
  if (column.kind === "date") return column.parts.length + Number(column.indicator);
  return column.categories.length + Number(column.other) + Number(column.missing);
}

/** Reads rows in the table's own columns. A column left out counts as missing, as an empty cell does. */
class TableReader {
  constructor(columns) {
    this.columns = columns;
    this.cut = new CellReader(columns.map((column) => column.name), "column");
    let start = 0;
    this.starts = columns.map((column) => (start += widthOf(column)) - widthOf(column));
    this.width = start;
  }

  read(text) {
    return this.cut.read(text, (cells, ignored) => this.encode(cells, ignored));
  }

  encode(cells, ignored) {
    const given = new Map(cells.map(([place, cell]) => [place, cell.trim()]));
    if (!given.size) throw new RowError("None of the columns is one of the model's.");
    const x = new Float64Array(this.width);
    const understood = this.columns.map((column, place) => {
      const cell = given.get(place);
      const { features, said } = ENCODERS[column.kind](column, cell === undefined || cell === "" ? null : cell);
      x.set(features, this.starts[place]);
      return { name: column.name, said, given: given.has(place) };
    });
    return { x, given: given.size, understood, ignored };
  }

  /** A listed row as text that `read` understands. */
  write(x) {
    return this.columns.map((column, place) => {
      const features = Array.from(x.subarray(this.starts[place], this.starts[place] + widthOf(column)));
      return `${tidy(column.name)} = ${DECODERS[column.kind](column, features)}`;
    }).join("\n");
  }

  help() {
    const names = this.columns.slice(0, 4).map((column) => short(tidy(column.name), 20)).join(", ");
    return `Paste a header line and a line of values, or type one “column = value” per line (${names}${this.columns.length > 4 ? ", …" : ""}). A column left out counts as missing.`;
  }

  placeholder() {
    return this.columns.slice(0, 4).map((column) => `${short(tidy(column.name), 30)} = ${column.kind === "text" ? column.categories[0] ?? "…" : "…"}`).join("\n");
  }

  count(row) {
    const left = this.columns.length - row.given;
    return left ? `${plural(row.given, "column")} given, ${count(left)} missing.` : `All ${plural(row.given, "column")} given.`;
  }
}
