"use strict";
(() => {
  const content = JSON.parse(document.getElementById("content").textContent);
  const make = (tag, text, parent) => {
    const node = document.createElement(tag);
    if (text !== undefined) node.textContent = text;
    if (parent) parent.append(node);
    return node;
  };

  // ---------------------------------------------------------------- charts
  // One look for all: text takes the page's ink, so light and dark need no second drawing.
  const ink = "currentColor";
  const config = {
    background: null,
    font: "system-ui, -apple-system, 'Segoe UI', Roboto, Helvetica, Arial, sans-serif",
    view: { stroke: null },
    axis: {
      labelColor: ink, titleColor: ink, domainColor: ink, tickColor: ink, gridColor: ink, gridOpacity: 0.12,
      domainOpacity: 0.35, tickOpacity: 0.35, labelOpacity: 0.85, titleOpacity: 0.85, labelFontSize: 12,
      titleFontSize: 12, titleFontWeight: 600, labelLimit: 140,
    },
    header: { labelColor: ink, titleColor: ink, labelFontSize: 12, titleFontSize: 12 },
    legend: { labelColor: ink, titleColor: ink, labelFontSize: 12, titleFontSize: 12, labelLimit: 160 },
    title: { color: ink, subtitleColor: ink },
    text: { color: ink },
  };
  // What hovering tells is text: nothing in it is read as HTML, and no field name (such as "image") means more.
  const bubble = make("div", undefined, document.body);
  bubble.id = "vg-tooltip-element";
  const hover = (handler, event, item, value) => {
    if (value === null || value === undefined || value === "") {
      bubble.classList.remove("visible");
      return;
    }
    bubble.replaceChildren();
    if (typeof value === "object") {
      const list = make("dl", undefined, bubble);
      for (const [name, told] of Object.entries(value)) {
        make("dt", name, list);
        make("dd", String(told), list);
      }
    } else bubble.textContent = String(value);
    bubble.classList.add("visible");
    const x = Math.min(event.clientX + 14, innerWidth - bubble.offsetWidth - 8);
    const y = event.clientY + 16 + bubble.offsetHeight > innerHeight
      ? event.clientY - bubble.offsetHeight - 12 : event.clientY + 16;
    bubble.style.left = Math.max(4, x) + "px";
    bubble.style.top = Math.max(4, y) + "px";
  };
  const embed = (node, spec) => {
    if (spec.usermeta && spec.usermeta.widest) node.style.maxWidth = spec.usermeta.widest + "px";
    return vegaEmbed(node, spec, {
      mode: "vega-lite", renderer: "svg", actions: false, ast: true, defaultStyle: false, tooltip: hover, config,
    });
  };
  const drawn = [...document.querySelectorAll("[data-chart]")].map(
    (node) => embed(node, content.charts[Number(node.dataset.chart)]),
  );

  // ---------------------------------------------------------------- tables
  const order = new Intl.Collator(undefined, { numeric: true });
  const valueOf = (row, at) => {
    const cell = row.cells[at];
    return cell.dataset.v === undefined ? cell.textContent : Number(cell.dataset.v);
  };
  const compare = (a, b) => {
    if (a === "" || b === "") return (a === "") - (b === "");
    return typeof a === "number" && typeof b === "number" ? a - b : order.compare(a, b);
  };
  for (const box of document.querySelectorAll(".data")) {
    const body = box.querySelector("tbody");
    const heads = [...box.querySelectorAll("th")];
    heads.forEach((head, at) => head.firstElementChild.addEventListener("click", () => {
      const falling = head.getAttribute("aria-sort") === "ascending"
        || (head.getAttribute("aria-sort") === "none" && head.classList.contains("n"));
      heads.forEach((other) => other.setAttribute("aria-sort", "none"));
      head.setAttribute("aria-sort", falling ? "descending" : "ascending");
      const keyed = [...body.rows].map((row) => [valueOf(row, at), row]);
      keyed.sort(([a], [b]) => (a === "" || b === "" ? compare(a, b) : falling ? compare(b, a) : compare(a, b)));
      body.append(...keyed.map(([, row]) => row));
    }));
    const said = box.querySelector(".count");
    box.querySelector("input").addEventListener("input", (event) => {
      const wanted = event.target.value.toLocaleLowerCase();
      let shown = 0;
      for (const row of body.rows) {
        row.hidden = !row.textContent.toLocaleLowerCase().includes(wanted);
        shown += !row.hidden;
      }
      said.textContent = wanted ? `${shown.toLocaleString("en")} of ${body.rows.length.toLocaleString("en")} rows` : "";
    });
  }

  window.tacitReady = Promise.all(drawn).then(() => true);
})();
