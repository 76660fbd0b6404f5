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
    if (spec.usermeta && spec.usermeta.widest && !node.closest(".picture")) node.style.maxWidth = spec.usermeta.widest + "px";
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
    if (!said) continue;
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

  // ---------------------------------------------------------- ask the model
  // P(column | given) = Σ_f P(f | given) profile[f], P(f | given) ∝ weight[f] Π profile[f, given]; in logarithms,
  // because hundreds of given columns would underflow.
  const shown = 12;
  const percent = (p) => (100 * p).toFixed(p > 0 && p < 0.001 ? 3 : 1) + " %";
  const beliefs = (model, given) => {
    const logs = model.weights.map((weight, f) => given.reduce(
      (sum, code, n) => (code < 0 ? sum : sum + Math.log(model.profiles[n][f][code])), Math.log(weight)));
    const top = Math.max(...logs);
    if (!Number.isFinite(top)) return null;
    const joint = logs.map((value) => Math.exp(value - top));
    const total = joint.reduce((a, b) => a + b, 0);
    return { classes: joint.map((value) => value / total), chance: Math.exp(top) * total };
  };
  const marginal = (profile, classes) => profile[0].map(
    (_, c) => classes.reduce((sum, belief, f) => sum + belief * profile[f][c], 0));
  const picture = (rows) => ({
    data: { name: "told", values: rows },
    width: "container",
    height: 19 * rows.length,
    encoding: {
      y: { field: "c", type: "nominal", sort: null, title: null, axis: { labelLimit: 120, ticks: false, domain: false } },
      tooltip: [{ field: "c", title: "category" }, { field: "p", title: "given this", format: ".2%" },
        { field: "q", title: "nothing known", format: ".2%" }],
    },
    layer: [
      { mark: { type: "bar", color: "#3f7fd0", cornerRadiusEnd: 2, height: { band: 0.72 } },
        encoding: { x: { field: "p", type: "quantitative", scale: { domain: [0, 1.18] }, axis: null } } },
      { mark: { type: "tick", color: "#8d97a5", thickness: 2, height: { band: 0.9 } },
        encoding: { x: { field: "q", type: "quantitative" } } },
      { mark: { type: "text", align: "left", dx: 4, fontSize: 11 },
        encoding: { x: { field: "end", type: "quantitative" }, text: { field: "p", format: ".1%" } } },
    ],
  });
  const rowsOf = (names, now, before) => {
    const order = [...names.keys()].sort((a, b) => before[b] - before[a] || a - b);
    const kept = names.length <= shown ? [...names.keys()] : order.slice(0, shown - 1).sort((a, b) => a - b);
    // Vega keeps groups in plain objects, where this one name means something else: a sign without width helps.
    const safe = (text) => (text === "__proto__" ? "__proto__\u200b" : text);
    const rows = kept.map((c) => ({ c: safe(names[c]), p: now[c], q: before[c] }));
    if (kept.length < names.length) {
      const rest = (values) => Math.max(0, 1 - kept.reduce((sum, c) => sum + values[c], 0));
      rows.push({ c: `${names.length - kept.length} others`, p: rest(now), q: rest(before) });
    }
    return rows.map((row) => ({ ...row, end: Math.max(row.p, row.q) }));
  };
  const askings = [...document.querySelectorAll("[data-ask]")].map((box) => {
    const model = content.asks[Number(box.dataset.ask)];
    const form = box.querySelector(".given");
    const given = model.columns.map(() => -1);
    const nothing = model.weights;
    const before = model.profiles.map((profile) => marginal(profile, nothing));
    let more = form;
    const choices = model.columns.map((name, n) => {
      if (n === shown) {
        const rest = make("details", undefined, form);
        make("summary", `${model.columns.length - shown} more columns`, rest);
        more = make("div", undefined, rest);
        more.className = "given";
      }
      const label = make("label", name, more);
      const select = make("select", undefined, label);
      make("option", "unknown", select).value = "-1";
      model.categories[n].forEach((word, c) => { make("option", word, select).value = String(c); });
      select.addEventListener("change", () => {
        given[n] = Number(select.value);
        label.classList.toggle("set", given[n] >= 0);
        update();
      });
      return select;
    });
    const clear = make("button", "Forget all", form);
    clear.type = "button";
    clear.addEventListener("click", () => {
      choices.forEach((select, n) => { select.value = "-1"; given[n] = -1; select.parentElement.classList.remove("set"); });
      update();
    });
    form.addEventListener("submit", (event) => event.preventDefault());
    const cards = [["hidden class", model.weights.map((_, f) => String(f)), nothing], ...model.columns.map(
      (name, n) => [name, model.categories[n], before[n]])].map(([name, words, prior], at) => {
      const card = make("div", undefined, box.querySelector(".answers"));
      card.className = "answer";
      make("h4", name, card);
      const plot = make("div", undefined, card);
      plot.className = "plot";
      return { card, plot, words, prior, now: prior, column: at - 1, view: null };
    });
    const draw = (card) => {
      const rows = rowsOf(card.words, card.now, card.prior);
      card.card.dataset.p = JSON.stringify(card.now);
      if (card.view) return card.view.then((result) => result.view.data("told", rows).runAsync());
      return undefined;
    };
    // A card is drawn when it comes into sight: a table may have hundreds of columns.
    const watch = new IntersectionObserver((seen) => seen.filter((one) => one.isIntersecting).forEach((one) => {
      const card = cards.find((each) => each.card === one.target);
      card.card.classList.add("drawn");
      if (!card.view) card.view = embed(card.plot, picture(rowsOf(card.words, card.now, card.prior)));
    }), { rootMargin: "200px" });
    cards.forEach((card) => { card.plot.style.minHeight = 19 * Math.min(card.words.length, shown) + 10 + "px"; watch.observe(card.card); });
    const told = box.querySelector(".told");
    const update = () => {
      const found = beliefs(model, given);
      const known = given.map((code, n) => (code < 0 ? "" : `${model.columns[n]} = ${model.categories[n][code]}`)).filter(Boolean);
      box.classList.toggle("impossible", !found);
      if (!found) {
        told.textContent = "What is given has probability zero under the model; choose something else.";
        return;
      }
      told.textContent = known.length
        ? `Given ${known.join(", ")}, which holds for ${percent(found.chance)} of the rows:` : "Nothing is given yet.";
      cards.forEach((card) => {
        card.now = card.column < 0 ? found.classes : marginal(model.profiles[card.column], found.classes);
        card.card.hidden = card.column >= 0 && given[card.column] >= 0;
        draw(card);
      });
    };
    update();
    return true;
  });

  window.latentfitReady = Promise.all(drawn).then(() => askings.every(Boolean));
})();
