/* Draws the pictures of the page and serves its controls. Without it the page holds the same numbers as tables. */
(async () => {
  const packed = Uint8Array.from(atob(document.getElementById("data").textContent), (each) => each.charCodeAt(0));
  const unpacked = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  const { colours, pictures } = await new Response(unpacked).json();
  const root = document.documentElement;
  root.dataset.scripted = "";
  const prefersDark = window.matchMedia("(prefers-color-scheme: dark)");
  // On a touch screen a finger on a plot scrolls the page.
  const isCoarse = window.matchMedia("(pointer: coarse)").matches;
  // So that two pictures with their tables stand on a sheet.
  const PRINTED_WIDTH_PIXELS = 680;
  const PRINTED_HEIGHT_PIXELS = 230;
  let printing = false;

  const theme = () => {
    if (printing) return "light";
    return root.dataset.theme || (prefersDark.matches ? "dark" : "light");
  };

  /* A figure with every name of a colour replaced; only in places that hold colours, for a run may be called "@ink". */
  const coloured = (value, key = "") => {
    if (typeof value === "string") return key.endsWith("color") ? colours[theme()][value] ?? value : value;
    if (Array.isArray(value)) return key === "x" || key === "y" || key === "z" ? value : value.map((each) => coloured(each));
    if (value === null || typeof value !== "object") return value;
    return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, coloured(each, name)]));
  };

  class Figure {
    constructor(element) {
      this.element = element;
      this.picture = pictures[element.dataset.picture];
      this.plot = element.querySelector(".plot");
      this.index = this.picture.shown;
      this.hidden = new Set();
      this.isDrawn = false;
      for (const control of element.querySelectorAll("[data-view]")) {
        control.addEventListener("input", () => this.show(Number(control.value)));
      }
      for (const box of element.querySelectorAll("[data-curve]")) {
        box.addEventListener("change", () => this.toggle(box.dataset.curve, box.checked));
      }
    }

    get view() {
      return this.picture.views[this.index];
    }

    show(index) {
      this.index = index;
      const { name, words, caption } = this.view;
      this.element.querySelector(".takeaway").textContent = words;
      this.element.querySelector("figcaption").textContent = caption;
      this.element.querySelector("[data-shown]").textContent = name;
      const slider = this.element.querySelector("input[type=range]");
      if (slider) {
        slider.setAttribute("aria-valuetext", `${slider.labels[0].textContent} ${name}`);
        this.element.querySelector("output").textContent = name;
      }
      this.tabulate();
      this.draw();
    }

    toggle(curve, isShown) {
      if (isShown) this.hidden.delete(curve);
      else this.hidden.add(curve);
      this.draw();
    }

    draw() {
      this.isDrawn = true;
      const { figure, owners, names } = this.view;
      const { data, layout } = coloured(figure);
      data.forEach((trace, index) => {
        trace.visible = !this.hidden.has(owners[index]);
      });
      layout.dragmode = isCoarse ? false : "zoom";
      const isGrid = data[0]?.type === "heatmap";
      this.width = printing ? PRINTED_WIDTH_PIXELS : this.plot.clientWidth;
      layout.width = this.width;
      if (printing && !isGrid) layout.height = PRINTED_HEIGHT_PIXELS;
      fitNames(layout, names, this.width, isGrid);
      return Plotly.react(this.plot, data, layout, { displayModeBar: false, scrollZoom: false });
    }

    /* The data table of the view that is shown, as the page's writer made that of the first one. */
    tabulate() {
      const { note, head, numeric, rows } = this.view.table;
      const box = this.element.querySelector(".numbers .scroll");
      const table = document.createElement("table");
      const headings = table.createTHead().insertRow();
      head.forEach(([heading, unit], index) => {
        const cell = headings.appendChild(document.createElement("th"));
        cell.scope = "col";
        if (numeric[index]) cell.className = "n";
        cell.textContent = heading;
        if (unit) {
          const small = cell.appendChild(document.createElement("span"));
          small.className = "unit";
          small.textContent = unit;
        }
      });
      const body = table.createTBody();
      for (const row of rows) {
        const line = body.insertRow();
        row.forEach((words, index) => {
          const cell = line.appendChild(document.createElement(index ? "td" : "th"));
          if (!index) cell.scope = "row";
          if (numeric[index]) cell.className = "n";
          cell.textContent = words;
        });
      }
      box.replaceChildren(table);
      const caption = this.element.querySelector(".numbers .caption");
      if (caption && note) caption.textContent = `${note[0].toUpperCase()}${note.slice(1)}.`;
    }
  }

  const figures = [...document.querySelectorAll("[data-picture]")].map((element) => new Figure(element));

  /* Each picture is drawn when it comes near the window, so that a long page opens at once. */
  const nearby = new IntersectionObserver(
    (entries) => {
      for (const { isIntersecting, target } of entries) {
        const figure = figures.find(({ element }) => element === target);
        if (isIntersecting && !figure.isDrawn) figure.draw();
      }
    },
    { rootMargin: "800px 0px" },
  );
  for (const { element } of figures) nearby.observe(element);
  /* Now what can be seen, the rest when it comes near again. */
  const redraw = () => {
    for (const figure of figures.filter(({ isDrawn }) => isDrawn)) {
      const { top, bottom } = figure.element.getBoundingClientRect();
      if (bottom > 0 && top < window.innerHeight) {
        figure.draw();
      } else {
        figure.isDrawn = false;
        nearby.unobserve(figure.element);
        nearby.observe(figure.element);
      }
    }
  };

  /* A page of another width has another room for names. */
  let waiting = 0;
  const fitted = new ResizeObserver(() => {
    clearTimeout(waiting);
    waiting = setTimeout(() => {
      for (const figure of figures) {
        // Also one that was drawn and waits to be drawn in other colours: it holds its old width, and the page with it.
        const isOther = !printing && figure.width && figure.plot.clientWidth !== figure.width;
        if (isOther && figure.plot.clientWidth) figure.draw();
      }
    }, 100);
  });
  for (const { plot } of figures) fitted.observe(plot);

  // ---------------------------------------------------------------- colours
  for (const choice of document.querySelectorAll("input[name=theme]")) {
    choice.addEventListener("change", () => {
      if (choice.value === "system") delete root.dataset.theme;
      else root.dataset.theme = choice.value;
      redraw();
    });
  }
  prefersDark.addEventListener("change", redraw);

  // ---------------------------------------------------------------- data tables
  for (const details of document.querySelectorAll("details.data")) details.open = false;

  /* A box is a stop of the keyboard only while there is something to scroll in it. */
  const sized = new ResizeObserver((entries) => {
    for (const { target } of entries) {
      const scrolls = target.scrollWidth > target.clientWidth || target.scrollHeight > target.clientHeight;
      if (scrolls) target.tabIndex = 0;
      else target.removeAttribute("tabindex");
    }
  });
  for (const box of document.querySelectorAll(".scroll, pre")) sized.observe(box);

  // ---------------------------------------------------------------- copying
  const say = (words) => {
    document.getElementById("status").textContent = words;
  };
  for (const button of document.querySelectorAll("[data-copy]")) {
    button.addEventListener("click", async () => {
      const source = document.getElementById(button.dataset.copy);
      try {
        await navigator.clipboard.writeText(source.textContent);
        say("Copied.");
        button.textContent = "Copied";
        setTimeout(() => (button.textContent = "Copy"), 2000);
      } catch {
        getSelection().selectAllChildren(source);
        say("Selected; copy it with the keyboard.");
      }
    });
  }

  // ---------------------------------------------------------------- where the reader is
  const links = new Map([...document.querySelectorAll("nav a")].map((link) => [link.hash.slice(1), link]));
  const passed = new IntersectionObserver(
    (entries) => {
      for (const { isIntersecting, target } of entries) {
        if (!isIntersecting) continue;
        for (const link of links.values()) link.removeAttribute("aria-current");
        links.get(target.getAttribute("aria-labelledby"))?.setAttribute("aria-current", "true");
      }
    },
    { rootMargin: "-10% 0px -80% 0px" },
  );
  for (const section of document.querySelectorAll("main > section")) passed.observe(section);

  // ---------------------------------------------------------------- paper
  let closed = [];
  let asOnScreen = () => {};
  window.addEventListener("beforeprint", () => {
    if (printing) return;
    printing = true;
    closed = [...document.querySelectorAll("details:not([open])")];
    for (const details of closed) details.open = true;
    asOnScreen = tablesOnPaper();
    figures.forEach((figure) => figure.draw());
  });
  window.addEventListener("afterprint", () => {
    printing = false;
    asOnScreen();
    for (const details of closed) details.open = false;
    redraw();
  });
})();
