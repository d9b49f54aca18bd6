/* A file that is opened in the page: its texts, their labels, and what people corrected in them.

   Rows are JSON Lines or a JSON array, a CSV or TSV file, or a text a line. Columns are found by
   the names of data/columns.py; the cells of a row stand in the order of its names. An error says
   in which line of the file it is. */

const MAX_FILE_SIZE = 50 * 2 ** 20; // bytes
const MAX_CELLS = 10_000; // of a row
const LINE_END = /\r\n|\r|\n/;
const JSON_ENDING = /\.(json|jsonl|ndjson)$/i;
const SHEET_ENDING = /\.(csv|tsv)$/i;
const MAX_DEPTH = 1000; // of brackets; a browser runs out of memory where millions are open
const SEPARATORS = ["\t", ";", "|", ","]; // as in data/table.py
const MARKS_BETWEEN_LABELS = [";", "|", "\n", "\t", ",", "/"];

const atLine = (line, fault) => new Error(`line ${counted(line)}: ${fault}`);
const isBlank = (cell) => (cell ?? "") === "" || (typeof cell === "string" && cell.trim() === "");
const readsPairs = () => model.matching !== "none";

/* Return the characters of a file; an error says why it has none that can be read. */
async function textOfFile(file) {
  if (file.size > MAX_FILE_SIZE) {
    const size = Math.ceil(file.size / 2 ** 20).toLocaleString("en");
    throw new Error(`it has ${size} MiB, and the page reads files of at most 50 MiB; open a part of it`);
  }
  const bytes = new Uint8Array(await file.arrayBuffer());
  let encoding = "utf-8";
  if (bytes[0] === 0xff && bytes[1] === 0xfe) encoding = "utf-16le"; // Excel's "Unicode text"
  if (bytes[0] === 0xfe && bytes[1] === 0xff) encoding = "utf-16be";
  let text;
  try {
    text = new TextDecoder(encoding, { fatal: true }).decode(bytes);
  } catch {
    throw new Error("it is not text in UTF-8; unpack it, or save it as UTF-8 (in Excel: CSV UTF-8)");
  }
  if (text.includes("\0")) throw new Error("it holds NUL characters: it is not a text file");
  return text;
}

/* Yield the rows of a file: `texts`, the `label` as `labelOf` returns it, and `spans` if there are
   any. */
function* rowsOf(name, text) {
  if (JSON_ENDING.test(name)) yield* rowsOfJson(text);
  else if (SHEET_ENDING.test(name)) yield* rowsOfSheet(text, name.toLowerCase().endsWith(".tsv"));
  else yield* rowsOfLines(text);
}

function* rowsOfLines(text) {
  if (readsPairs()) {
    throw new Error("it has one text a line, and the model reads two; open JSON Lines or CSV with "
      + "the columns text and text_pair");
  }
  for (const line of text.split(LINE_END)) {
    if (line.trim()) yield { texts: [line] };
  }
}

// ---- JSON ----------------------------------------------------------------------------------------

function* rowsOfJson(text) {
  if (text.trimStart().startsWith("[")) {
    for (const [index, value] of parsed(text, 1).entries()) yield rowOfJson(value, index + 1);
    return;
  }
  for (const [index, line] of text.split(LINE_END).entries()) {
    if (line.trim()) yield rowOfJson(parsed(line, index + 1), index + 1);
  }
}

/* Return whether more than `MAX_DEPTH` brackets of a JSON text are open at once. */
function isDeeplyNested(text) {
  let depth = 0;
  let isInString = false;
  for (let place = 0; place < text.length; place++) {
    const mark = text[place];
    if (mark === '"') isInString = !isInString;
    else if (isInString) place += mark === "\\"; // the next character is no end of the string
    else if (mark === "[" || mark === "{") depth++;
    else if (mark === "]" || mark === "}") depth--;
    if (depth > MAX_DEPTH) return true;
  }
  return false;
}

function parsed(text, line) {
  if (isDeeplyNested(text)) throw atLine(line, "brackets are nested too deeply");
  try {
    return JSON.parse(text);
  } catch (error) {
    throw atLine(line, `${error.message}; each line holds an object such as {"text": "The soup was good."}`);
  }
}

function rowOfJson(value, line) {
  if (typeof value === "string" && !readsPairs()) return { texts: [value] };
  if (value === null || typeof value !== "object" || Array.isArray(value)) {
    throw atLine(line, 'this is no row; a row is an object such as {"text": "The soup was good."}');
  }
  return rowOfCells(Object.values(value), columnsOf(Object.keys(value), line), line);
}

// ---- CSV -----------------------------------------------------------------------------------------

function* rowsOfSheet(text, isTsv) {
  const [names = ""] = text.match(/.*\S.*/) ?? [];
  const separator = separatorOf(names.replaceAll(/"[^"]*"/g, ""));
  let columns, heads;
  for (const { cells, line } of linesOfSheet(text, separator)) {
    if (cells.every(isBlank)) continue;
    if (!heads) {
      heads = cells;
      columns = columnsOf(cells, line);
      continue;
    }
    if (cells.length !== heads.length) {
      throw atLine(line, `it has ${cells.length} cells, and the first line ${heads.length}; a text that `
        + "holds the separator needs quotes around it; in a file that ends in .txt each line is a text");
    }
    if (heads.length > 1 && cells.every((cell, place) => cell === heads[place])) {
      throw atLine(line, "the row repeats the names of the columns; delete it");
    }
    if (isTsv && cells.some((cell) => LINE_END.test(cell))) {
      throw atLine(line, "quotation marks join lines; save it as CSV, in which marks inside a cell in "
        + "quotation marks are doubled");
    }
    yield rowOfCells(cells, columns, line);
  }
}

/* Return the mark that the line of names holds most. */
function separatorOf(names) {
  const count = (mark) => names.split(mark).length;
  return SEPARATORS.reduce((one, other) => (count(other) > count(one) ? other : one));
}

/* Yield the cells of each row of a sheet, and the line where it begins. */
function* linesOfSheet(text, separator) {
  const plain = new RegExp(`[^${separator}\r\n]*`, "y");
  const quoted = /"([^"]*(?:""[^"]*)*)"/y;
  const end = /\r\n|\r|\n|$/y;
  let cells = [];
  let line = 1;
  let lineOfRow = line;
  let place = 0;
  const take = (pattern) => {
    pattern.lastIndex = place;
    const match = pattern.exec(text);
    if (match) place = pattern.lastIndex;
    return match;
  };
  while (place < text.length || cells.length) {
    if (text[place] === '"') {
      const match = take(quoted);
      if (!match) throw atLine(line, "a quotation mark opens a cell and none closes it");
      cells.push(match[1].replaceAll('""', '"'));
      line += match[1].split(LINE_END).length - 1;
    } else cells.push(take(plain)[0]);
    if (text[place] === separator) {
      place++;
      if (cells.length < MAX_CELLS) continue;
      throw atLine(line, `it has more than ${counted(MAX_CELLS)} cells`);
    }
    if (!take(end)) throw atLine(line, "something follows a quoted cell; quotes inside of it are doubled");
    line++;
    yield { cells, line: lineOfRow };
    cells = [];
    lineOfRow = line;
  }
}

// ---- columns and cells ---------------------------------------------------------------------------

const usualForm = (name) => name.trim().toLowerCase().replaceAll(" ", "_");

/* Return the places of the columns by their names, which stand in a line. */
function columnsOf(names, line) {
  const forms = names.map(usualForm);
  const doubled = names.find((name, place) => name.trim() && names.indexOf(name) < place);
  if (doubled !== undefined) throw atLine(line, `two columns have the name ${doubled}; rename one`);
  const present = (group) => group.filter((name) => forms.includes(name));
  const [texts] = readsPairs()
    ? model.columns.pairs.filter((pair) => present(pair).length === 2)
    : model.columns.texts.flatMap(present).map((name) => [name]);
  if (!texts) {
    const wanted = readsPairs() ? "text and text_pair" : "text";
    throw atLine(line, `no column (${listed(names)}) has the name of texts; name it ${wanted}`);
  }
  const labels = model.columns.labels.flatMap(present).filter((name) => !texts.includes(name));
  const marksOf = (name) => texts.map((_, side) => forms.indexOf(name + (side ? "_pair" : "")));
  return {
    texts: texts.map((name) => forms.indexOf(name)),
    label: forms.indexOf(labels[0]),
    marks: COLUMNS_OF_MARKS.map((name) => (name ? marksOf(name) : [])),
  };
}

/* Return a row from its cells. Marks make it a correction, whose label the model must know. */
function rowOfCells(cells, columns, line) {
  const own = columns.texts.map((column) => textOf(cells[column], line));
  const label = labelOf(cells[columns.label]);
  const texts = own.map((text) => text.replaceAll(/\r\n?/g, "\n")); // as in the box
  const row = { texts, label };
  if (columns.marks.flat().every((column) => isBlank(cells[column]))) return row;
  if (label === null || label === undefined) {
    const cell = JSON.stringify(cells[columns.label]) ?? "nothing";
    throw atLine(line, `the label is ${cell}; the model knows ${listed(model.labels)}`);
  }
  row.spans = columns.marks.map((ofSides) =>
    ofSides.map((column, side) => spansOfCell(cells[column], own[side], line)));
  return row;
}

function listed(names) {
  const shown = names.slice(0, 20).join(", ");
  return names.length > 20 ? `${shown} and ${names.length - 20} more` : shown;
}

function textOf(cell, line) {
  if (isBlank(cell)) return "";
  if (typeof cell === "string") return cell;
  throw atLine(line, `the text is ${JSON.stringify(cell).slice(0, 60)}, which is no text`);
}

/* Return the spans of a cell, which are counted in code points; those of the box have line feeds in
   place of other line ends. */
function spansOfCell(cell, text, line) {
  let spans = isBlank(cell) ? [] : cell;
  if (typeof spans === "string") spans = parsed(spans, line);
  const points = Array.from(text);
  const isSpan = (span) => Array.isArray(span) && span.length === 2 && span.every(Number.isInteger)
    && span[0] >= 0 && span[0] < span[1] && span[1] <= points.length;
  if (!Array.isArray(spans) || !spans.every(isSpan)) {
    throw atLine(line, `${JSON.stringify(spans).slice(0, 60)} are no marks; allowed are `
      + `[[start, end], ...], whole numbers with 0 <= start < end <= ${points.length}`);
  }
  const places = [0]; // of each code point in the box
  points.forEach((point, place) => {
    const isHalf = point === "\n" && points[place - 1] === "\r"; // of a line end
    places.push(places[place] + (isHalf ? 0 : 1));
  });
  const ofBox = spans.map((span) => span.map((place) => places[place]));
  return ofBox.filter(([start, end]) => start < end); // a half of a line end is nothing there
}

/* Return the label that a cell spells, in the form of a correction: null if the model knows none of
   that name, undefined if the cell says that there is no label. */
function labelOf(cell) {
  if (isUnlabelled(cell)) return undefined;
  const values = valuesOf(cell);
  if (model.kind === "regression") {
    const numbers = values.map((value) => (isBlank(value) ? NaN : Number(value)));
    if (numbers.length !== model.labels.length || !numbers.every(Number.isFinite)) return null;
    return numbers.length > 1 ? numbers : numbers[0];
  }
  if (areZerosAndOnes(values)) return model.labels.filter((_, number) => values[number] === 1);
  const names = values.map(nameOf);
  if (names.includes(undefined)) return null;
  if (model.kind === "multi_label_classification") return names;
  return names.length === 1 ? names[0] : null;
}

/* Return whether a cell says that a row has no label: `is_unlabelled` of data/labels.py. */
function isUnlabelled(cell) {
  return isBlank(cell) || String(cell).trim() === "nan";
}

/* Return the labels, as they are written, that stand in a cell; a text that is no list and no several
   names of the model is one. */
function valuesOf(cell) {
  if (typeof cell !== "string") return [cell].flat();
  // A name may have brackets or marks itself, as "[NEG]" and "Korea, South" have.
  if (model.kind !== "regression" && nameOf(cell) !== undefined) return [cell];
  const text = cell.trim();
  if (/^\[.*\]$/s.test(text)) return listOf(text) ?? [cell];
  if (model.kind !== "multi_label_classification") return [cell];
  const divided = MARKS_BETWEEN_LABELS.map((mark) => text.split(mark).filter((part) => part.trim()));
  const known = divided.find((parts) => parts.length && parts.every((part) => nameOf(part) !== undefined));
  return known ?? [cell];
}

/* Return the list that a text is in JSON; null if it is none. */
function listOf(text) {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

/* Return whether values are a 0 or 1 for each of several labels, as rows to train on may have. */
const areZerosAndOnes = (values) => model.kind === "multi_label_classification" && values.length > 1
  && values.length === model.labels.length && values.every((value) => value === 0 || value === 1);

/* Return the name of the model's label that a value spells, as 1.0 spells "1" and -0.0 "0". */
function nameOf(value) {
  const spelled = { true: "True", false: "False" }; // as Python does
  const text = typeof value === "boolean" ? spelled[value] : String(value).trim();
  const written = text.replace(/^(?:-(?=0+\.?0*$))?([+-]?\d+)(?:\.0*)?$/, "$1");
  return model.labels.find((name) => name === value) ?? model.labels.find((name) => name.trim() === written);
}
