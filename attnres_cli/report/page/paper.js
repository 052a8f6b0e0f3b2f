"use strict";
/* Tables on paper, which cannot be scrolled: one that is wider than a sheet is set in parts below each other, each with
   the names of the rows and some of the columns. Of every column the width that it needs is kept, so that no name is
   broken by letter. */
const tablesOnPaper = (() => {
  // Within the margins of A4, and of Letter, with a little to spare.
  const PAPER_PIXELS = 676;
  const FONT_PIXELS = 10, PADDING_PIXELS = 10, WIDER_THAN_MEASURED = 1.06;
  // Words wider than this are set in lines.
  const WIDEST_WORDS_PIXELS = 130;
  const pen = document.createElement("canvas").getContext("2d");
  const wordsOf = (cell) => [...cell.childNodes].flatMap(({ textContent }) => textContent.match(/[^\s-]+-?|-/g) ?? []);

  /* Numbers stay in one line; a heading above them is broken between words. */
  const columnWidth = (cells) => {
    const [head, ...body] = cells;
    const isNumeric = head.classList.contains("n");
    const wide = (words) => pen.measureText(words).width * WIDER_THAN_MEASURED;
    const needed = (found) => Math.min(WIDEST_WORDS_PIXELS, Math.max(0, ...found.map(wide)));
    const texts = body.map(({ textContent }) => textContent);
    const inside = isNumeric ? Math.max(0, ...texts.map(wide)) : needed(texts);
    return Math.ceil(Math.max(inside, needed(wordsOf(head)))) + PADDING_PIXELS;
  };

  /* Numbers of the columns of every part, beside column 0, which stands in each. */
  const partsOf = (widths) => {
    const parts = [[]];
    let used = widths[0];
    for (let column = 1; column < widths.length; column += 1) {
      if (used + widths[column] > PAPER_PIXELS && parts.at(-1).length) {
        parts.push([]);
        used = widths[0];
      }
      parts.at(-1).push(column);
      used += widths[column];
    }
    return parts;
  };

  const withColumns = (table, columns, widths) => {
    const part = table.cloneNode(true);
    for (const row of part.rows) {
      const cells = [...row.cells];
      row.replaceChildren(...columns.map((column) => cells[column]));
    }
    columns.forEach((column, place) => (part.rows[0].cells[place].style.minWidth = `${widths[column]}px`));
    return part;
  };

  const numbered = (number, count) => {
    const words = document.createElement("p");
    words.className = "caption part";
    words.textContent = `Part ${number + 1} of ${count}`;
    return words;
  };

  /* Sets every table for paper, but for those that paper leaves out; what it returns puts them back. */
  return () => {
    const back = [];
    pen.font = `500 ${FONT_PIXELS}px ${getComputedStyle(document.body).fontFamily}`;
    for (const box of document.querySelectorAll(".scroll:not(.unprinted)")) {
      const table = box.querySelector("table");
      const rows = [...table.rows].map(({ cells }) => cells);
      const widths = [...rows[0]].map((_, column) => columnWidth(rows.map((cells) => cells[column])));
      const parts = partsOf(widths).map((columns) => withColumns(table, [0, ...columns], widths));
      const captioned = parts.flatMap((part, number) => [numbered(number, parts.length), part]);
      box.replaceChildren(...(parts.length > 1 ? captioned : parts));
      back.push(() => box.replaceChildren(table));
    }
    return () => back.forEach((each) => each());
  };
})();
