// Rows as text: what a reader types or pastes, and a listed row written out for editing.

const tidy = (name) => name.replace(/\s+/g, " ").trim();

/** Cuts typed text into cells of named columns: "name = value" lines, a header and a line of values, or values alone. */
class CellReader {
  constructor(names, word) {
    this.names = names;
    this.word = word;
    this.numbers = new Map();
    names.forEach((name, j) => {
      if (!this.numbers.has(tidy(name))) this.numbers.set(tidy(name), j);
    });
  }

  /** What `use(cells, ignored)` makes of the text, or {error}. */
  read(text, use) {
    const lines = text.split(/\r?\n/).filter((line) => line.trim());
    if (!lines.length) return { error: "Type name = value, one per line, or paste one line of a CSV file." };
    try {
      const [cells, ignored] = this.cells(lines);
      return use(cells, ignored);
    } catch (error) {
      if (error instanceof RowError) return { error: error.message };
      throw error;
    }
  }

  /** Lines → pairs of column number and text of its value; names that are not used. */
  cells(lines) {
    const header = splitCells(lines[0]);
    const known = (cell) => this.numbers.has(tidy(cell));
    if (lines.length === 2 && header.some(known)) {
      const values = splitCells(lines[1], separatorOf(lines[0]));
      if (values.length !== header.length) {
        throw new RowError(`${plural(header.length, "column name")} but ${plural(values.length, "value")}.`);
      }
      // A pasted header may name more columns than the tree reads, such as the target.
      const cells = header.map((cell, i) => [this.numbers.get(tidy(cell)), values[i]]);
      return [cells.filter(([place]) => place !== undefined), header.filter((cell) => !known(cell))];
    }
    if (lines.some((line) => line.includes("="))) return [lines.flatMap((line) => this.assignments(line)), []];
    const values = lines.flatMap((line) => splitCells(line));
    if (values.length !== this.names.length) {
      throw new RowError(`${plural(this.names.length, "value")} expected, in the order of the columns; ${count(values.length)} given.`);
    }
    return [values.map((value, j) => [j, value]), []];
  }

  /** "name = value", or several of them with commas between; a name may itself hold commas or "=". */
  assignments(line) {
    const cuts = [...line].map((letter, i) => (letter === "=" ? i : -1)).filter((i) => i > 0).reverse();
    const known = (cut) => this.numbers.has(tidy(line.slice(0, cut)));
    const several = splitCells(line).filter((cell) => this.numbers.has(tidy(cell.slice(0, cell.lastIndexOf("=")))));
    // The last "=" decides; an earlier one only where there are not several assignments, for values that hold "=".
    const cut = several.length > 1 ? cuts.slice(0, 1).find(known) : cuts.find(known);
    if (cut !== undefined) return [[this.numbers.get(tidy(line.slice(0, cut))), line.slice(cut + 1)]];
    return splitCells(line)
      .filter((cell) => cell.trim())
      .map((cell) => {
        const at = cell.lastIndexOf("=");
        if (at < 0) throw new RowError(`“${short(cell.trim(), 40)}” has no “=”.`);
        const name = tidy(cell.slice(0, at));
        if (!this.numbers.has(name)) throw new RowError(`There is no ${this.word} “${short(name, 40)}”.`);
        return [this.numbers.get(name), cell.slice(at + 1)];
      });
  }
}

/** Reads rows of features, where the page knows no table. Features that are left out take their typical value. */
class FeatureReader {
  constructor(features, filler) {
    Object.assign(this, { names: features.names, typical: features.typical, filler });
    this.cut = new CellReader(features.names, "feature");
  }

  read(text) {
    return this.cut.read(text, (cells, ignored) => this.fromValues(cells, ignored));
  }

  fromValues(cells, ignored) {
    const x = Float64Array.from(this.typical);
    const given = new Set();
    for (const [feature, text] of cells) {
      const value = text.trim() === "" ? NaN : Number(text.trim().replace(MINUS, "-"));
      if (!Number.isFinite(value)) {
        throw new RowError(`${short(this.names[feature], 40)} needs a number, not “${short(text.trim(), 20)}”.`);
      }
      x[feature] = value;
      given.add(feature);
    }
    return { x, given: given.size, understood: null, ignored };
  }

  /** Every feature of a short row, else the untypical ones. */
  write(x) {
    const features = this.names.map((_, j) => j).filter((j) => this.names.length <= 64 || x[j] !== this.typical[j]);
    return features.map((j) => `${tidy(this.names[j])} = ${x[j]}`).join("\n");
  }

  help() {
    return `One “name = value” per line, or a line of CSV: ${plural(this.names.length, "value")} in the order of the columns, or with a header line above it. Features left out take ${this.filler}.`;
  }

  placeholder() {
    return this.names.slice(0, 3).map((name) => `${short(tidy(name), 30)} = …`).join("\n");
  }

  count(row) {
    const left = this.names.length - row.given;
    return left ? `${plural(row.given, "feature")} given, ${count(left)} left out.` : `All ${plural(row.given, "feature")} given.`;
  }
}

/** The reader of typed rows; null where a row cannot be typed, as molecules cannot be encoded in the page. */
function rowReader(summary) {
  if (summary.columns?.some((column) => column.kind === "smiles")) return null;
  if (summary.columns) return new TableReader(summary.columns);
  return new FeatureReader(summary.features, summary.n_rows === null ? "0" : "their median");
}

/** A listed row as numbers. */
function expandSample(summary, sample) {
  const x = Float64Array.from(summary.features.typical);
  sample.features.forEach((feature, i) => {
    x[feature] = sample.values[i];
  });
  return x;
}

const separatorOf = (line) => ["\t", ";", ","].find((mark) => line.includes(mark)) ?? ",";

/** The cells of a line of CSV or TSV; quotes keep commas together, and a doubled quote stands for itself. */
function splitCells(line, separator = separatorOf(line)) {
  const cells = [""];
  let quoted = false;
  for (let i = 0; i < line.length; i += 1) {
    const letter = line[i];
    if (letter === '"' && quoted && line[i + 1] === '"') {
      cells[cells.length - 1] += '"';
      i += 1;
    } else if (letter === '"') quoted = !quoted;
    else if (letter === separator && !quoted) cells.push("");
    else cells[cells.length - 1] += letter;
  }
  return cells;
}
