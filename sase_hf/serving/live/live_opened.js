/* The way through the texts of an opened file, the doubtful ones first. */

const MAX_OPENED = 2000; // texts
const MAX_LENGTH = 200_000; // UTF-16 units of a text, beyond which its box is slow

// The texts of the file in the order of the page, their labels by key, and the place of the text
// that is shown.
let opened = null;
let scan = 0; // the number of the last one; a newer one ends the older

/* Return how many labels an answer may be, and how far it is from another: of one label the margin
   between the two highest probabilities, of several the distance of the nearest one from 0.5. */
function doubtOf(scores) {
  if (model.kind === "regression") return { size: 1, margin: 0 };
  if (model.kind === "multi_label_classification") {
    return { size: 1, margin: Math.min(...scores.map((score) => Math.abs(score - 0.5))) };
  }
  const [best, second] = scores.toSorted((left, right) => right - left);
  const size = scores.filter((score) => score >= (model.answer_threshold ?? Infinity)).length;
  return { size: Math.max(1, size), margin: best - second };
}

const moreDoubtful = (left, right) =>
  right.doubt.size - left.doubt.size || left.doubt.margin - right.doubt.margin;

/* Read the texts of a file, and begin with the most doubtful one. */
async function openFile(file) {
  const own = ++scan;
  const isOff = () => own !== scan;
  const name = shownName(file.name);
  let isStopped = false;
  first("#scanning button").onclick = () => (isStopped = true);
  first("#unopened").textContent = "";
  first("#scanning").hidden = false;
  first("#scanning .step").textContent = `Opening ${name}`;
  first("#scanning progress").value = 0;
  try {
    const { rows, corrected, remarks } = await rowsOfFile(file, isOff);
    await inMoments(addDoubts(rows), () => isOff() || (isStopped && rows[0].doubt));
    if (isOff()) return;
    const read = rows.filter(({ doubt }) => doubt);
    if (read.length < rows.length) {
      remarks.push(`Of ${counted(rows.length)} texts ${counted(read.length)} were read.`);
    }
    keepFromFile(corrected);
    walk(name, read, remarks);
  } catch (error) {
    if (isOff()) return;
    first("#unopened").textContent = `${name} cannot be opened: ${shownName(error.message)}.`;
    moveFocus(first(".opened input"), first("#scanning"));
  }
  first("#scanning").hidden = true;
}

/* Return the rows of a file to show, one for each text, its corrections, shown or not, and what is
   left out. Of several corrections of a text the last counts, as in training; without one the first
   row with a label. */
async function rowsOfFile(file, isOff) {
  const text = await textOfFile(file);
  const rows = new Map();
  const corrected = new Map();
  let numEmpty = 0;
  let numLong = 0;
  let numRepeated = 0;
  let isCut = false;

  function* collect() {
    for (const row of rowsOf(file.name, text)) {
      yield;
      if (isCut && !row.spans) continue;
      const key = keyOf(row.texts);
      const numEmptyTexts = row.texts.filter(isEmptyText).length;
      if (row.spans && !numEmptyTexts) {
        corrected.delete(key); // the last correction of the file stands last
        corrected.set(key, row);
      }
      if (row.texts.some((one) => one.length > MAX_LENGTH)) numLong++;
      else if (numEmptyTexts === row.texts.length) numEmpty++;
      else if (rows.has(key)) {
        numRepeated++;
        if (row.spans || rows.get(key).label === undefined) rows.set(key, row);
      } else if (rows.size === MAX_OPENED) isCut = true;
      else rows.set(key, row);
    }
  }

  await inMoments(collect(), isOff);
  if (!rows.size) throw new Error(`it holds no text of at most ${counted(MAX_LENGTH)} characters`);
  const remarks = [];
  if (isCut) {
    remarks.push(`Only the first ${counted(MAX_OPENED)} texts are read; open the others as a file of their own.`);
  }
  if (numLong) remarks.push(`Rows with more than ${counted(MAX_LENGTH)} characters: ${counted(numLong)}.`);
  if (numEmpty) remarks.push(`Rows without a text: ${counted(numEmpty)}.`);
  if (numRepeated) remarks.push(`Rows that repeat a text: ${counted(numRepeated)}.`);
  const shown = Array.from(rows.values());
  const numIncomplete = shown.filter(({ texts }) => texts.some(isEmptyText)).length;
  if (numIncomplete) {
    remarks.push(`Pairs with an empty text, which cannot be corrected: ${counted(numIncomplete)}.`);
  }
  const numUnknown = shown.filter(({ label }) => label === null).length;
  if (numUnknown) {
    remarks.push(`Labels that the model does not know: ${counted(numUnknown)}; choose the right ones.`);
  }
  const numUnseen = Array.from(corrected.keys()).filter((key) => !rows.has(key)).length;
  if (numUnseen) remarks.push(`Corrections that are kept without being shown: ${counted(numUnseen)}.`);
  return { rows: shown, corrected: corrected.values(), remarks };
}

/* Read one row after the other, and add its `doubt`. */
function* addDoubts(rows) {
  for (const [place, row] of rows.entries()) {
    first("#scanning .step").textContent = `Reading text ${counted(place + 1)} of ${counted(rows.length)}`;
    first("#scanning progress").value = place / rows.length;
    const { scores } = yield* predict(row.texts.map(partThatIsRead));
    row.doubt = doubtOf(scores);
    yield;
  }
}

/* Give the focus to a `goal` if one of some elements has it, which are about to lose it. */
function moveFocus(goal, ...elements) {
  const isLost = elements.some((one) => one.contains(document.activeElement));
  if (isLost) goal.focus({ preventScroll: true });
}

function setDisabled(button, isDisabled) {
  if (isDisabled) moveFocus(first(".walk"), button);
  button.disabled = isDisabled;
}

/* Begin to walk through the rows of a file. */
function walk(name, rows, remarks) {
  rows.sort(moreDoubtful);
  const labels = new Map(rows.map((row) => [keyOf(row.texts), row.label]));
  opened = { name, rows, labels, place: 0 };
  first(".walk").hidden = false;
  moveFocus(first(".walk"), first("#scanning"), first(".examples"), first(".result"));
  first(".opened .remarks").textContent = remarks.join(" ");
  first(".examples").hidden = true;
  waiting.add(first(".result"));
  showOpened(0);
}

/* Put a text of the file into the boxes, and read it. */
function showOpened(place) {
  opened.place = place;
  const { name, rows } = opened;
  const order = model.kind === "regression" ? "" : ", the doubtful ones first";
  first(".walk .place").textContent = `${counted(place + 1)} of ${counted(rows.length)}`;
  first(".walk .name").textContent = `texts of ${name}${order}`;
  setDisabled(first(".walk .previous"), place === 0);
  setDisabled(first(".walk .next"), place === rows.length - 1);
  every("textarea").forEach((box, side) => (box.value = rows[place].texts[side]));
  readIn(0);
}

/* Show the text that follows the one that was corrected, and stay where it stands. */
function goOn(place) {
  showOpened(place);
  first(".walk").focus({ preventScroll: true });
  first(".walk").scrollIntoView();
}

/* Return the way on from the text that is shown, if it is one of the file and not the last. */
function wayOn(texts) {
  const row = opened?.rows[opened.place];
  const isOfFile = row && keyOf(row.texts) === keyOf(texts);
  const next = opened?.place + 1; // however often the way is taken
  return isOfFile && next < opened.rows.length ? () => goOn(next) : null;
}

function prepareOpening() {
  const input = first(".opened input");
  input.addEventListener("click", () => (input.value = "")); // the same file can be opened again
  input.addEventListener("change", () => {
    if (input.files.length) openFile(input.files[0]);
  });
  first(".walk .previous").addEventListener("click", () => showOpened(opened.place - 1));
  first(".walk .next").addEventListener("click", () => showOpened(opened.place + 1));
}
