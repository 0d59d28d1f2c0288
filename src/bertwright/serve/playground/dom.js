// Elements that all panels use. Text enters the page only by textContent, never as HTML.

const SVG = "http://www.w3.org/2000/svg";

function fill(node, properties, children) {
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name.startsWith("--")) node.style.setProperty(name, value);
    else if (name === "value") node.value = value;
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat(Infinity).filter((c) => c !== null && c !== undefined));
  return node;
}

/** Return an element; strings among its children become text nodes. */
export function h(tag, properties = {}, ...children) {
  return fill(document.createElement(tag), properties, children);
}

/** Return an element of SVG; see `h`. */
export function s(tag, properties = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), properties, children);
}

/** Return a fraction as a percentage. */
export function percent(share) {
  if (share >= 0.9995) return "100 %";
  if (share > 0 && share < 0.0005) return "< 0.1 %";
  return `${(100 * share).toFixed(1)} %`;
}

/** Return a number with a minus sign (not a hyphen), and without a sign before zero. */
export function number(value, digits = 3) {
  const text = value.toFixed(digits);
  return Number(text) === 0 ? (0).toFixed(digits) : text.replace("-", "−");
}

/** Return labels with bars, in the given order; a share is between 0 and 1. */
export function bars(rows, name) {
  return h(
    "ul",
    { class: "bars", "aria-label": name },
    rows.map(({ label, share, shown, good }) =>
      h(
        "li",
        { class: good ? "right" : null },
        h("bdi", {}, label),
        h("b", {}, shown ?? percent(share)),
        h("i", { "aria-hidden": "true" }, h("i", { "--share": `${100 * Math.max(0, share)}%` })),
      ),
    ),
  );
}

/** Return a table; numbers are aligned to the right. */
export function table(heads, rows, name) {
  const numeric = heads.map((_, i) => rows.length > 0 && rows.every((r) => typeof r[i] === "number"));
  const cell = (value, i) => h("td", { class: numeric[i] ? "number" : null, dir: "auto" }, `${value}`);
  return h(
    "div",
    { class: "wide", tabindex: "0", role: "region", "aria-label": name },
    h(
      "table",
      {},
      h("thead", {}, h("tr", {}, heads.map((text, i) =>
        h("th", { scope: "col", class: numeric[i] ? "number" : null }, text)))),
      h("tbody", {}, rows.map((row) => h("tr", {}, row.map(cell)))),
    ),
  );
}

/** Return content that is hidden until its title is opened. */
export function more(title, ...children) {
  return h("details", {}, h("summary", {}, title), children);
}

/** Slice a text by code points, as Python counts; JavaScript counts UTF-16 units. */
export function characters(text) {
  const points = Array.from(text);
  return {
    length: points.length,
    slice: (start, end) => points.slice(start, end).join(""),
  };
}

/** Split a text at spans {start, end} that do not overlap. The parts between them are strings; a
 * span becomes the result of `mark(span, text)`. */
export function marked(text, spans, mark) {
  const points = characters(text);
  const parts = [];
  let done = 0;
  for (const span of [...spans].sort((a, b) => a.start - b.start)) {
    if (span.start < done || span.end <= span.start) continue;
    parts.push(points.slice(done, span.start), mark(span, points.slice(span.start, span.end)));
    done = span.end;
  }
  parts.push(points.slice(done, points.length));
  return parts.filter((part) => part !== "");
}

/** Return a line with the facts that a reply states about itself (model, layers, time). */
export function receipt(given) {
  const said = (value) => value ?? (value === null ? "none" : "not said");
  const cuts = (given.truncated ?? []).map((cut) =>
    `${cut.tokens_cut} tokens of text ${cut.input + 1}`).join(", ");
  const facts = [
    ["model", said(given.model)],
    ["sha256", given.sha256 ? given.sha256.slice(0, 12) : "not said"],
    ["layers", layers(given.layers)],
    ["pooling", said(given.pooling)],
    ["normalised", given.normalized === undefined ? "not said" : given.normalized ? "yes" : "no"],
    ["tokens used", said(given.tokens)],
    ["truncated", cuts || "nothing"],
    ["took", `${Math.round(given.milliseconds)} ms`],
  ];
  return h("dl", { class: "receipt", "aria-label": "What the server says it did" },
    facts.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, `${value}`))));
}

/** Return a command with a button that copies it. */
export function command(line) {
  const copy = h("button", { type: "button", class: "insert", onclick: async () => {
    await navigator.clipboard?.writeText(line);
    copy.textContent = navigator.clipboard ? "Copied" : "Select it and copy";
  } }, "Copy as curl");
  return h("div", { class: "curl" }, copy, more("Show", h("pre", {}, line)));
}

/** Return layer numbers as text, with consecutive numbers as a range. */
function layers(given) {
  if (!given?.length) return "none";
  const run = given.length > 2 && given.every((layer, i) => layer === given[0] + i);
  return run ? `${given[0]} to ${given[given.length - 1]}` : given.join(", ");
}

/** Let the arrow keys move the focus among `items`; only one of them is reached by Tab. */
export function roving(items, chosen) {
  items.forEach((item, i) => {
    item.tabIndex = i === 0 ? 0 : -1;
    const choose = () => {
      items.forEach((other) => (other.tabIndex = other === item ? 0 : -1));
      chosen(i);
    };
    item.addEventListener("focus", choose);
    item.addEventListener("pointerenter", () => chosen(i));
    item.addEventListener("keydown", (event) => {
      const step = { ArrowDown: 1, ArrowRight: 1, ArrowUp: -1, ArrowLeft: -1 }[event.key];
      const target = { Home: 0, End: items.length - 1 }[event.key] ?? (step ? i + step : undefined);
      if (target === undefined || !items[target]) return;
      event.preventDefault();
      items[target].focus();
    });
  });
}
