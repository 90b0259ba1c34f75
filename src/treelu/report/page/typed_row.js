// Rows as text: what a reader types or pastes, and a listed row written out for editing.

const tidy = (name) => name.replace(/\s+/g, " ").trim();

class RowReader {
  constructor(features) {
    this.names = features.names;
    this.typical = features.typical;
    this.numbers = new Map();
    this.names.forEach((name, j) => {
      if (!this.numbers.has(tidy(name))) this.numbers.set(tidy(name), j);
    });
  }

  /** Text → {x, given} or {error}. Features that are left out take their typical value. */
  read(text) {
    const lines = text.split(/\r?\n/).filter((line) => line.trim());
    if (!lines.length) return { error: "Type name = value, one a line, or paste one line of a CSV file." };
    try {
      return this.fromValues(this.cells(lines));
    } catch (error) {
      if (error instanceof RowError) return { error: error.message };
      throw error;
    }
  }

  /** Lines → pairs of feature number and text of its value. */
  cells(lines) {
    const header = splitCells(lines[0]);
    if (lines.length === 2 && header.some((cell) => this.numbers.has(tidy(cell)))) {
      const values = splitCells(lines[1]);
      if (values.length !== header.length) {
        throw new RowError(`${plural(header.length, "column name")} but ${plural(values.length, "value")}.`);
      }
      // A pasted header may name more columns than the tree reads, such as the target.
      return header.map((cell, i) => [this.numbers.get(tidy(cell)), values[i]]).filter(([feature]) => feature !== undefined);
    }
    if (lines.some((line) => line.includes("="))) return lines.flatMap((line) => this.assignments(line));
    const values = lines.flatMap(splitCells);
    if (values.length !== this.names.length) {
      throw new RowError(`${plural(this.names.length, "value")} expected, in the order of the columns; ${count(values.length)} given.`);
    }
    return values.map((value, j) => [j, value]);
  }

  /** "name = value", or several of them with commas between; a name may itself hold commas or "=". */
  assignments(line) {
    const cut = line.lastIndexOf("=");
    if (this.numbers.has(tidy(line.slice(0, cut)))) return [[this.numbers.get(tidy(line.slice(0, cut))), line.slice(cut + 1)]];
    return splitCells(line)
      .filter((cell) => cell.trim())
      .map((cell) => {
        const at = cell.lastIndexOf("=");
        if (at < 0) throw new RowError(`“${short(cell.trim(), 40)}” has no “=”.`);
        const name = tidy(cell.slice(0, at));
        if (!this.numbers.has(name)) throw new RowError(`There is no feature “${short(name, 40)}”.`);
        return [this.numbers.get(name), cell.slice(at + 1)];
      });
  }

  fromValues(cells) {
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
    return { x, given: given.size };
  }

  /** A listed row as numbers. */
  expand(sample) {
    const x = Float64Array.from(this.typical);
    sample.features.forEach((feature, i) => {
      x[feature] = sample.values[i];
    });
    return x;
  }

  /** A listed row as text that `read` understands: every feature of a short row, else the untypical ones. */
  write(sample) {
    const x = this.expand(sample);
    const features = this.names.length <= 64 ? this.names.map((_, j) => j) : sample.features;
    return features.map((j) => `${tidy(this.names[j])} = ${x[j]}`).join("\n");
  }
}

class RowError extends Error {}

/** The cells of a line of CSV or TSV; quotes keep commas together. */
function splitCells(line) {
  const separator = ["\t", ";", ","].find((mark) => line.includes(mark)) ?? ",";
  const cells = [""];
  let quoted = false;
  for (const letter of line) {
    if (letter === '"') quoted = !quoted;
    else if (letter === separator && !quoted) cells.push("");
    else cells[cells.length - 1] += letter;
  }
  return cells;
}
