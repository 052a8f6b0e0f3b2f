"use strict";
/* Names on the axes of a picture, each set whole however narrow the page is: beside each other in a few lines, or
   upright. Left to itself the library that draws hides a name that would reach beyond the edge. Where there is no room
   for every name, every second, third … is set. */
const fitNames = (() => {
  const FONT_PIXELS = 12, LINE_PIXELS = 16, MOST_LINES = 3, GAP_PIXELS = 10;
  const MOST_UPRIGHT_PIXELS = [120, 240, 400];
  // What stands beside the field of a picture: numbers of the vertical axis, and the bar of the colours.
  const NUMBERS_PIXELS = 60, COLOURS_PIXELS = 100, AROUND_ROWS_PIXELS = 110;
  const LEAST_ROW_NAME_PIXELS = 90, MOST_ROW_NAME_SHARE = 0.3;
  const pen = document.createElement("canvas").getContext("2d");
  const width = (words) => pen.measureText(words).width;

  /* Lines no wider than `most`, broken after spaces, hyphens and the like; within a word only where that alone is
     wider, which isWhole tells. */
  const wrapped = (name, most) => {
    const lines = [];
    let line = "", isWhole = true;
    for (const piece of name.match(/[^\s\-_/=,]+[\s\-_/=,]*|[\s\-_/=,]+/g) ?? [name]) {
      if (line && width((line + piece).trimEnd()) > most) {
        lines.push(line);
        line = "";
      }
      line += piece;
      while (width(line.trimEnd()) > most && line.length > 1) {
        isWhole = false;
        const letters = [...line];
        let count = letters.length - 1;
        while (count > 1 && width(letters.slice(0, count).join("")) > most) count -= 1;
        lines.push(letters.slice(0, count).join(""));
        line = letters.slice(count).join("");
      }
    }
    return { lines: [...lines, line].map((each) => each.trimEnd()).filter(Boolean), isWhole };
  };
  const widest = (found) => Math.max(...found.flatMap(({ lines }) => lines.map(width)));
  const mostLines = (found) => Math.max(...found.map(({ lines }) => lines.length));
  const escaped = (line) => line.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
  const set = (axis, found, every, angle) => {
    axis.tickmode = "array";
    axis.tickvals = found.map((_, place) => place * every);
    axis.ticktext = found.map(({ lines }) => lines.map(escaped).join("<br>"));
    axis.tickfont = { ...axis.tickfont, size: FONT_PIXELS };
    axis.tickangle = angle;
    axis.ticklabeloverflow = "allow";
  };
  const everyNth = (names, every) => names.filter((_, place) => place % every === 0);

  const fitAcross = (layout, names, room) => {
    const flat = names.map((name) => wrapped(name, room / names.length - GAP_PIXELS));
    if (flat.every(({ isWhole }) => isWhole) && mostLines(flat) <= MOST_LINES) {
      set(layout.xaxis, flat, 1, 0);
      layout.height += (mostLines(flat) - 1) * LINE_PIXELS;
      return;
    }
    const every = Math.max(1, Math.ceil((names.length * LINE_PIXELS) / room));
    const shown = everyNth(names, every);
    const lines = Math.max(1, Math.floor((room / names.length) * every / LINE_PIXELS));
    const upright = MOST_UPRIGHT_PIXELS.map((most) => shown.map((name) => wrapped(name, most)));
    const fits = upright.find((found) => mostLines(found) <= lines);
    // A name that is too long even so is cut; the legend and a touch of its point tell it whole.
    const cut = ({ lines: all }) => ({ lines: all.length > lines ? [...all.slice(0, lines - 1), `${all[lines - 1]}…`] : all });
    const found = fits ?? upright.at(-1).map(cut);
    set(layout.xaxis, found, every, -90);
    layout.height += Math.round(widest(found)) - LINE_PIXELS;
  };

  const rowNames = (names, pageWidth) => {
    const most = Math.max(LEAST_ROW_NAME_PIXELS, MOST_ROW_NAME_SHARE * pageWidth);
    return names.map((name) => wrapped(name, most));
  };

  const fitDown = (layout, found) => {
    const lines = mostLines(found);
    if (lines > 1) layout.height = Math.max(layout.height, AROUND_ROWS_PIXELS + found.length * lines * LINE_PIXELS);
    const every = Math.max(1, Math.ceil((found.length * lines * LINE_PIXELS) / (layout.height - AROUND_ROWS_PIXELS)));
    set(layout.yaxis, everyNth(found, every), every, 0);
  };

  /* names: {xaxis, yaxis}, of each what stands at 0, 1, 2 …; empty on an axis of numbers. The picture grows where its
     names take more room than one line. */
  return (layout, names, pageWidth, hasColourBar) => {
    pen.font = `${FONT_PIXELS}px ${layout.font.family}`;
    const rows = rowNames(names.yaxis, pageWidth);
    if (rows.length) fitDown(layout, rows);
    const left = rows.length ? widest(rows) + GAP_PIXELS : NUMBERS_PIXELS;
    const room = pageWidth - left - (hasColourBar ? COLOURS_PIXELS : GAP_PIXELS);
    if (names.xaxis.length) fitAcross(layout, names.xaxis, Math.max(room, LINE_PIXELS));
  };
})();
