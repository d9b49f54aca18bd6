/* The report of a run lets people correct the texts that it shows. */

const toCorrect = JSON.parse(first("#to-correct").textContent);
startCorrections(toCorrect);
every(".result").forEach((article, place) => {
  const { texts, words, label, marks } = toCorrect.texts[place];
  const placesOf = (ofText) => ofText.map(([start, end]) => ({ start, end }));
  const spans = marks ? [[], ...marks] : null; // by mark, as a correction has them
  offerCorrection(article, { texts, words: words.map(placesOf), label, spans, goOn: null });
});
