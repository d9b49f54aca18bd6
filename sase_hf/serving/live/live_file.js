/* A file that is opened in the page: its texts, their labels, and what people corrected in them.

   Rows are JSON Lines or a JSON array, a CSV or TSV file, or a text a line. Columns are found by
   the names of data/columns.py; the cells of a row stand in the order of its names. An error says
   in which line of the file it is. */

const MAX_FILE_SIZE = 50 * 2 ** 20; // bytes
const MAX_CELLS = 10_000; // of a row
const LINE_END = /\r\n|\r|\n/;
const JSON_ENDING = /\.(json|jsonl|ndjson)$/i;
const SHEET_ENDING = /\.(csv|tsv)$/i;
// A cell of a TSV file that begins with a quote and goes on, maybe at once, to a doubled one.
const DOUBLED_IN_QUOTES = /(?:^|\t)"(?:""(?!")|(?!")(?:[^"\t]|"")*"")/;
const MAX_DEPTH = 1000; // of brackets; a browser runs out of memory where millions are open
const SEPARATORS = [",", ";", "\t", "|"];
const SEPARATOR_LINE = /^"?sep=.?"?\s*$/; // Excel reads it above the header
const MARKS_BETWEEN_LABELS = [";", "|", "\n", "\t", ",", "/"];

/* Return an error in a line of a file, with the line behind the `end` of what it spoils. */
const atLine = (line, fault, end = line + 1) =>
  Object.assign(new Error(`line ${counted(line)}: ${fault}`), { end });
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

/* Yield the rows of a file: `texts`, the `label` as `labelOf` returns it, `spans` if there are any,
   whether they `areUnnamed`: from the first columns of a sheet without the name of texts, and whether
   they `haveTextQuotes`: quotes of the sheet that enclose no cells. */
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
  const names = Object.keys(value);
  const columns = columnsOf(names);
  if (!columns) {
    const wanted = readsPairs() ? "text and text_pair" : "text";
    throw atLine(line, `no column of the row (${names.join(", ")}) has the name of texts; name it ${wanted}`);
  }
  return rowOfCells(Object.values(value), columns, line);
}

// ---- CSV -----------------------------------------------------------------------------------------

function* rowsOfSheet(content, isTabbed) {
  const [above] = content.split(LINE_END, 1);
  const isAbove = SEPARATOR_LINE.test(above);
  const text = isAbove ? content.slice(above.length).replace(LINE_END, "") : content;
  const separator = separatorOf(text.split(LINE_END, 2), isTabbed ? "\t" : ",");
  const haveTextQuotes = separator === "\t" && areQuotesText(text);
  let columns, width;
  for (const { cells, line } of linesOfSheet(text, separator, !haveTextQuotes, isAbove ? 2 : 1)) {
    if (cells.every(isBlank)) continue;
    if (!width) {
      width = cells.length;
      columns = columnsOf(cells);
      if (columns) continue;
      columns = firstColumns(width);
    }
    if (cells.length !== width) {
      throw atLine(line, `it has ${cells.length} cells, and the first line ${width}; a text that holds `
        + "the separator needs quotes around it; in a file that ends in .txt each line is a text");
    }
    yield { ...rowOfCells(cells, columns, line), haveTextQuotes };
  }
}

/* Return the mark between the cells of a sheet by its first two lines. */
function separatorOf([header, second = ""], usual) {
  const [inHeader, inSecond] = [header, second].map((line) => {
    const unquoted = line.replaceAll(/"[^"]*"/g, "");
    return (mark) => unquoted.split(mark).length - 1;
  });
  const marks = [usual, ...SEPARATORS];
  const most = (some) => some.reduce((one, other) => (inHeader(other) > inHeader(one) ? other : one));
  const goesOn = inSecond('"') % 2; // a cell does, in the third line
  const even = marks.filter((mark) => !goesOn && inHeader(mark) && inHeader(mark) === inSecond(mark));
  if (even.length) return most(even);
  return inHeader(usual) ? usual : most(marks);
}

/* Return whether the quotes of a TSV file, which training refuses then, are text: to read them as
   quotes would join lines that are rows of their own, or fails. A cell in quotes with a doubled one
   before that shows that quotes enclose cells. */
function areQuotesText(text) {
  if (!text.includes('"')) return false;
  const lines = text.split(LINE_END);
  const numTabs = (line) => line.split("\t").length - 1;
  const expected = numTabs(lines[0]);
  if (!expected || lines[0].includes('"')) return false;
  const areRows = (begin, end) => lines.slice(begin - 1, end - 1).every((line) =>
    !line.trim() || numTabs(line) === expected);
  const showsQuotes = (line) => DOUBLED_IN_QUOTES.test(lines[line - 1]);
  let begin = 1; // of the next row; counted from 1, as in errors
  try {
    for (const { end } of linesOfSheet(text, "\t", true)) {
      if (showsQuotes(begin)) return false;
      if (end - begin > 1 && areRows(begin, end)) return true;
      begin = end;
    }
  } catch (fault) {
    return !showsQuotes(begin) && areRows(begin, fault.end);
  }
  return false;
}

/* Yield the cells of each row of a sheet, the line where it begins, and the line behind its `end`. */
function* linesOfSheet(text, separator, hasQuotes, firstLine = 1) {
  const plain = new RegExp(`[^${separator}\r\n]*`, "y");
  const quoted = /"([^"]*(?:""[^"]*)*)"/y;
  const end = /\r\n|\r|\n|$/y;
  let cells = [];
  let line = firstLine;
  let lineOfRow = firstLine;
  let place = 0;
  const take = (pattern) => {
    pattern.lastIndex = place;
    const match = pattern.exec(text);
    if (match) place = pattern.lastIndex;
    return match;
  };
  while (place < text.length || cells.length) {
    if (hasQuotes && text[place] === '"') {
      const match = take(quoted);
      if (!match) throw atLine(line, "a quotation mark opens a cell and none closes it", Infinity);
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
    yield { cells, line: lineOfRow, end: line };
    cells = [];
    lineOfRow = line;
  }
}

// ---- columns and cells ---------------------------------------------------------------------------

const usualForm = (name) => name.trim().toLowerCase().replaceAll(" ", "_");

/* Return the places of the columns by their names; null if none has the name of texts. */
function columnsOf(names) {
  const forms = names.map(usualForm);
  const present = (group) => group.filter((name) => forms.includes(name));
  const [texts] = readsPairs()
    ? model.columns.pairs.filter((pair) => present(pair).length === 2)
    : model.columns.texts.flatMap(present).map((name) => [name]);
  if (!texts) return null;
  const labels = model.columns.labels.flatMap(present).filter((name) => !texts.includes(name));
  const marksOf = (name) => texts.map((_, side) => forms.indexOf(name + (side ? "_pair" : "")));
  return {
    texts: texts.map((name) => forms.indexOf(name)),
    label: forms.indexOf(labels[0]),
    marks: COLUMNS_OF_MARKS.map((name) => (name ? marksOf(name) : [])),
  };
}

/* Return the columns of a sheet without a header: the texts come first. */
function firstColumns(width) {
  if (readsPairs() && width < 2) {
    throw new Error("it has one column, and the model reads two texts");
  }
  const marks = COLUMNS_OF_MARKS.map(() => []);
  return { texts: readsPairs() ? [0, 1] : [0], label: -1, marks, areUnnamed: true };
}

/* Return a row from its cells. Marks make it a correction, whose label the model must know. */
function rowOfCells(cells, columns, line) {
  const own = columns.texts.map((column) => textOf(cells[column], line));
  const label = labelOf(cells[columns.label]);
  const texts = own.map((text) => text.replaceAll(/\r\n?/g, "\n")); // as in the box
  const row = { texts, label, areUnnamed: columns.areUnnamed };
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
  if (/^\[.*\]$/s.test(text)) return spelledList(text) ?? [cell];
  if (model.kind !== "multi_label_classification") return [cell];
  const divided = MARKS_BETWEEN_LABELS.map((mark) => text.split(mark).filter((part) => part.trim()));
  const known = divided.find((parts) => parts.length && parts.every((part) => nameOf(part) !== undefined));
  return known ?? [cell];
}

/* Return the list that a text spells in JSON, or in Python without escapes; null if it spells none. */
function spelledList(text) {
  try {
    return JSON.parse(text);
  } catch {
    const item = /'[^'\\]*'|"[^"\\]*"|[-+.\w]+/g;
    const form = text.replaceAll(item, "0").replaceAll(/\s/g, "");
    if (!/^\[0(,0)*,?\]$/.test(form)) return null;
    return text.match(item).map((one) => one.replaceAll(/^['"]|['"]$/g, ""));
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
