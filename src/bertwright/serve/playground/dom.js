// Elements that all panels use, and the drawing of attention heads. Text enters the page only by
// textContent, never as HTML. The page that `bertwright attention` writes contains this whole file,
// so it must not import another.

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

// Attention heads: all of them as thumbnails, and one as lines or as a matrix.

const ROW = 26; // pixels per token
const FAINT = 0.015; // lines of a smaller attention are not drawn
const SHARES = { lines: [0.1, 0.3, 1], matrix: [0.01, 0.05, 0.2, 0.5, 1] };

/**
 * Return the thumbnails, the switch between lines and matrix, and the drawing of the chosen head.
 *
 * `rows` are the tokens that attend, `columns` those that are attended to. Each of `layers` has a
 * number and its heads, each a list of rows. `layer` and `head` count from 0; `keep` is called with
 * the choice.
 */
export function stage(state) {
  const canvas = h("div", { class: "canvas" });
  const written = h("div");
  const legend = h("p", { class: "legend" });
  const [row, column] = [state.rows, state.columns].map((tokens) => {
    const which = told(tokens);
    return (i) => [h("bdi", {}, tokens[i]), which[i]];
  });
  const seen = h("div", { class: "seen", "aria-live": "polite" });
  const draw = () => {
    const layer = state.layers[state.layer];
    const weights = layer.heads[state.head];
    const name = `Layer ${layer.number}, head ${state.head + 1}`;
    const said = (i) => seen.replaceChildren(
      h("h3", {}, row(i), " looks at"),
      bars(best(weights[i]).map((j, n) => ({
        label: column(j), share: weights[i][j], good: n === 0,
      })), `What ${state.rows[i]} looks at`));
    const means = weights[0].map((_, j) =>
      weights.reduce((sum, row) => sum + row[j], 0) / weights.length);
    seen.replaceChildren(
      h("h3", {}, "Tokens look, on average, at"),
      bars(best(means).map((j) => ({ label: column(j), share: means[j] })), "Looked at most"),
      h("p", { class: "soft" }, "Point at a token on the left, or go to it by Tab and the arrow keys."));
    legend.replaceChildren(...shades(state.view));
    const drawn = state.view === "lines" ? lines : matrix;
    canvas.replaceChildren(h("h3", {}, name), drawn(state.rows, state.columns, weights, name, said));
    written.replaceChildren(more("As a table", table(["", ...state.columns],
      state.rows.map((token, i) => [token, ...weights[i].map(percent)]), name)));
  };
  const thumbs = state.layers.map(({ number, heads }, l) => heads.map((weights, i) => h("button", {
    type: "button", class: "thumb", "aria-pressed": `${l === state.layer && i === state.head}`,
    title: `Layer ${number}, head ${i + 1}`,
    onclick: (event) => {
      [state.layer, state.head] = [l, i];
      state.keep("head", `${i + 1}`);
      thumbs.flat().forEach((other) =>
        other.setAttribute("aria-pressed", `${other === event.currentTarget}`));
      draw();
    },
  }, thumbnail(weights), h("span", {}, h("span", { class: "unseen" }, "Head "), `${i + 1}`))));
  const views = ["lines", "matrix"].map((view) => h("label", {},
    h("input", { type: "radio", name: "view", value: view, checked: state.view === view,
      onchange: () => {
        state.view = view;
        state.keep("view", view);
        draw();
      } }), view));
  draw();
  return h("div", { class: "attention" },
    h("div", { class: state.layers.length > 1 ? "atlas" : null },
      state.layers.map(({ number }, l) => h("div", {
        class: "thumbs", role: "group", "aria-label": `Attention heads of layer ${number}`,
        "--heads": `${thumbs[l].length}`,
      }, state.layers.length > 1 ? h("span", { class: "layer" }, `${number}`) : null, thumbs[l]))),
    h("fieldset", { class: "views" }, h("legend", { class: "unseen" }, "Shown as"), views),
    legend,
    h("div", { class: "two" }, canvas, seen),
    written);
}

function best(row) {
  return row.map((_, j) => j).sort((a, b) => row[b] - row[a]).slice(0, 6);
}

/** Return the legend of the colours. */
function shades(view) {
  const weight = (share) => `${view === "lines" ? share : Math.sqrt(share)}`;
  return ["Attention:", ...SHARES[view].map((share) => h("span", {},
    h("i", { class: view === "lines" ? "stroke shade" : "shade", "--weight": weight(share),
      "aria-hidden": "true" }), `${100 * share} %`)),
  view === "lines" ? `Less than ${100 * FAINT} % is not drawn.` : ""];
}

/** Return the suffix of each token in labels: which occurrence it is, if it is repeated. */
function told(tokens) {
  const counts = new Map();
  for (const token of tokens) counts.set(token, (counts.get(token) ?? 0) + 1);
  const met = new Map();
  return tokens.map((token) => {
    met.set(token, (met.get(token) ?? 0) + 1);
    return counts.get(token) > 1 ? ` (${met.get(token)} of ${counts.get(token)})` : "";
  });
}

function thumbnail(weights) {
  const size = { width: weights[0].length, height: weights.length };
  const canvas = h("canvas", { ...size, "aria-hidden": "true" });
  const context = canvas.getContext("2d");
  context.fillStyle = getComputedStyle(document.documentElement).getPropertyValue("--train").trim();
  weights.forEach((row, i) => row.forEach((weight, j) => {
    context.globalAlpha = Math.sqrt(weight);
    context.fillRect(j, i, 1, 1);
  }));
  return canvas;
}

function side(tokens, name) {
  return tokens.map((token, i) => h("button", {
    type: "button", class: "token", "aria-label": `${name} ${i + 1}: ${token}`,
  }, token));
}

/** Draw the tokens left and right, and a curve for each attention weight. Pointing at a token shows
 * only its curves. */
function lines(rows, columns, weights, name, said) {
  const height = Math.max(rows.length, columns.length) * ROW;
  const middle = (i) => i * ROW + ROW / 2;
  const curves = weights.flatMap((row, i) => row.map((weight, j) => weight < FAINT ? null :
    s("path", { class: "look", "data-from": i, "--weight": `${weight}`,
      d: `M0 ${middle(i)}C40 ${middle(i)} 60 ${middle(j)} 100 ${middle(j)}` })));
  const right = columns.map((token) => h("span", { class: "token" }, token));
  const left = side(rows, "Token");
  const box = h("div", { class: "lines", role: "group", "aria-label": name },
    h("div", { class: "side from" }, left),
    s("svg", { viewBox: `0 0 100 ${height}`, preserveAspectRatio: "none", height,
      "aria-hidden": "true" }, curves),
    h("div", { class: "side to", "aria-hidden": "true" }, right));
  const choose = (i) => {
    box.classList.add("chosen");
    left.forEach((node, k) => node.classList.toggle("on", k === i));
    right.forEach((node, j) => {
      node.style.setProperty("--weight", `${weights[i][j]}`);
      node.classList.toggle("on", weights[i][j] >= FAINT);
    });
    for (const curve of curves) curve?.classList.toggle("on", curve.dataset.from === `${i}`);
    said(i);
  };
  roving(left, choose);
  box.addEventListener("pointerleave", () => {
    if (box.contains(document.activeElement)) return;
    box.classList.remove("chosen");
    [...left, ...right].forEach((node) => node.classList.remove("on"));
  });
  return box;
}

/** Draw a matrix: a row for each token that attends, a column for each that is attended to. */
function matrix(rows, columns, weights, name, said) {
  const count = columns.length;
  const cells = weights.flatMap((row, i) => row.map((weight, j) => s("rect", {
    x: j, y: i, width: 1, height: 1, class: "cell", "--weight": `${Math.sqrt(weight)}`,
  }, s("title", {}, `${rows[i]} at ${columns[j]}: ${percent(weight)}`))));
  const band = s("rect", { class: "band", x: 0, y: 0, width: count, height: 1 });
  const left = side(rows, "Token");
  const grid = s("svg", { viewBox: `0 0 ${count} ${rows.length}`, preserveAspectRatio: "none",
    height: rows.length * ROW, "aria-hidden": "true" }, cells, band);
  const box = h("div", { class: "matrix", role: "group", "aria-label": name, "--count": `${count}` },
    h("div", { class: "side from" }, left),
    h("div", {},
      h("div", { class: "over", "aria-hidden": "true" }, columns.map((token) => h("span", {}, token))),
      grid));
  const choose = (i) => {
    left.forEach((node, k) => node.classList.toggle("on", k === i));
    band.setAttribute("y", i);
    box.classList.add("chosen");
    said(i);
  };
  roving(left, choose);
  grid.addEventListener("pointerover", (event) => {
    const place = cells.indexOf(event.target);
    if (place >= 0) choose(Math.floor(place / count));
  });
  // The columns of a long text have a minimum width; the matrix scrolls if it does not fit.
  return h("div", { class: "wide", tabindex: "0", role: "region", "aria-label": "Matrix" }, box);
}
