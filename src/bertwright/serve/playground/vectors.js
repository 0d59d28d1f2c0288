// The panels that look at vectors and tokens: cosines, pieces, and a word in several sentences.

import { characters, h, marked, more, number, roving, s, table } from "./dom.js";
import { post } from "./server.js";

const MOST = 1000; // tokens drawn

const LAYERS = {
  name: "layers",
  label: "Layers",
  kind: "choice",
  value: "",
  choices: (model) => [
    ["", "as the model says"],
    ...Array.from({ length: model.layers + 1 }, (_, i) =>
      [`${model.layers - i}`, layerName(model.layers - i, model.layers)]),
    ...(model.layers >= 4 ? [["-4,-3,-2,-1", "mean of the last four"]] : []),
  ],
};

const POOLING = {
  name: "pooling",
  label: "Pooling",
  kind: "choice",
  value: "",
  choices: () => [["", "as the model says"], ...["mean", "cls", "max", "weighted", "first-last"].map(
    (name) => [name, name])],
};

export function layerName(layer, count) {
  if (layer === 0) return "0, the embeddings";
  return layer === count ? `${layer}, the last` : `${layer}`;
}

/** What of the form's `layers` and `pooling` goes into a request. */
function asked({ layers, pooling }) {
  const body = {};
  if (layers) body.layers = layers.split(",").map(Number);
  if (body.layers?.length > 1) body.combine = "mean";
  if (pooling) body.pooling = pooling;
  return body;
}

const compare = {
  name: "compare",
  title: "Compare sentences",
  about: "The cosine between the vectors of every two sentences.",
  kinds: null,
  fields: [
    { name: "texts", label: "Sentences, one a line (2 to 24)", kind: "lines", rows: 5,
      least: 2, most: 24,
      value: "A man is playing a guitar.\nSomeone plays an instrument.\n" +
        "The stock market fell today.\nShares lost value this morning.\nA cat sleeps on the sofa." },
    LAYERS,
    POOLING,
  ],
  async run({ texts, layers, pooling, ...rest }) {
    const { answer, receipt } = await post("similarity", {
      ...rest, input: texts, ...asked({ layers, pooling }),
    });
    const cosines = answer.similarities;
    // The colours span what is there: cosines of raw BERT vectors lie close together.
    const off = cosines.flatMap((row, i) => row.filter((_, j) => i !== j));
    const low = Math.min(...off);
    const high = Math.max(...off);
    const share = (value) => (high > low ? (Math.min(value, high) - low) / (high - low) : 0.5);
    const dense = texts.length > 8;
    const cell = (value, i, j) => h("td", {
      // Ink cannot be read on the deeper half of the colours, black can.
      class: i === j ? "none" : share(value) > 0.54 ? "deep" : null,
      "--share": i === j ? null : `${8 + 78 * share(value)}%`,
    }, i === j ? "·" : number(value, 2));
    return { receipt, parts: [
      h("div", { class: "wide", tabindex: "0", role: "region", "aria-label": "Cosines" },
        h("table", { class: dense ? "heat dense" : "heat" },
          h("thead", {}, h("tr", {}, h("td"), texts.map((text, i) =>
            h("th", { scope: "col", title: text }, `${i + 1}`)))),
          h("tbody", {}, texts.map((text, i) => h("tr", {},
            h("th", { scope: "row", title: text }, h("div", { dir: "auto" }, `${i + 1}  ${text}`)),
            cosines[i].map((value, j) => cell(value, i, j))))))),
      h("p", { class: "legend" }, "Cosine: ", h("span", {}, number(low, 2), high > low
        ? [h("i", { class: "ramp", "aria-hidden": "true" }), number(high, 2)] : null),
      "The colours run from the least to the largest here."),
    ] };
  },
};

const tokens = {
  name: "tokens",
  title: "See the tokens",
  about: "The pieces the model reads, their ids, and which characters each is from.",
  kinds: null,
  fields: [
    { name: "text", label: "Text", kind: "long", example: (texts) => texts[0],
      value: "Unbelievable: the tokenizer splits rare words, naïve ones too 🙂." },
  ],
  async run({ text, ...rest }) {
    const { answer, receipt } = await post("tokenize", { ...rest, input: text });
    const all = read(answer.results[0]);
    const rows = all.slice(0, MOST);
    const left = all.length - rows.length;
    const points = characters(text);
    const over = rows.filter((r) => r.end > r.start);
    const spans = [];
    const shown = left > 0 ? points.slice(0, over.at(-1)?.end ?? 0) : text;
    const slices = marked(shown, over, (row, part) => {
      const node = h("span", { class: `piece even${spans.length % 2}` }, part);
      spans.push([row, node]);
      return node;
    });
    const show = (row, on) => {
      for (const [other, node] of spans) node.classList.toggle("on", on && covers(other, row));
    };
    const chips = rows.map((row) => {
      const chip = h("li", { class: row.end > row.start ? "chip" : "chip special",
        "aria-label": `${row.token}, id ${row.id}, ` +
          (row.end > row.start ? `characters ${row.start} to ${row.end}` : "not of the text") },
      h("span", {}, row.token), h("small", {}, `${row.id}`));
      for (const [on, names] of [[true, ["focus", "pointerenter"]], [false, ["blur", "pointerleave"]]])
        for (const name of names) chip.addEventListener(name, () => show(row, on));
      return chip;
    });
    roving(chips, () => {});
    return { receipt, parts: [
      h("p", { class: "passage pieces", dir: "auto" }, slices, left > 0 ? "…" : null),
      h("ul", { class: "chips", "aria-label": "Tokens" }, chips),
      h("p", { class: "soft" }, `${all.length} tokens of ${points.length} characters` +
        `${left > 0 ? `; the last ${left} are not drawn` : ""}. ` +
        "Point at a token, or go to it by Tab and the arrow keys, to see its place."),
      more("As a table", table(["#", "Token", "Id", "From", "To", "Characters"],
        rows.map((r, i) => [i, r.token, r.id, r.start, r.end,
          points.slice(r.start, r.end)]), "Tokens")),
    ] };
  },
};

function covers(one, other) {
  return one.start < other.end && other.start < one.end;
}

/** Rows of tokens from lists side by side. */
function read(result) {
  return result.tokens.map((token, i) => ({
    token,
    id: result.ids?.[i],
    start: result.offsets[i][0],
    end: result.offsets[i][1],
    vector: result.vectors?.[i],
  }));
}

const word = {
  name: "word",
  title: "A word by layer",
  about: "One word in several sentences: how alike its vectors are at every layer. " +
    "The embeddings know only the word and its place; senses part further up.",
  kinds: null,
  fields: [
    { name: "word", label: "Word", kind: "line", value: "bank" },
    { name: "texts", label: "Sentences with the word, one a line (2 to 6)", kind: "lines", rows: 4,
      least: 2, most: 6,
      value: "She sat on the bank of the river.\nThe bank raised its interest rates.\n" +
        "He robbed a bank in broad daylight.\nWillows grow along the muddy bank." },
  ],
  async run({ word: given, texts, ...rest }, model) {
    const places = texts.map((text, i) => place(text, given, i));
    const layers = Array.from({ length: model.layers + 1 }, (_, i) => i);
    const { answer, receipt } = await post("tokens", {
      ...rest, input: texts, layers, combine: "concat", normalize: false,
    });
    const vectors = answer.results.map((result, i) => {
      const rows = read(result).filter((row) => covers(row, places[i]));
      if (rows.length === 0) throw new Error(`Sentence ${i + 1}: no token of the word was left.`);
      return layers.map((layer) => mean(rows.map((row) => {
        const width = row.vector.length / layers.length;
        return row.vector.slice(layer * width, (layer + 1) * width);
      })));
    });
    const pairs = [];
    for (let i = 0; i < texts.length; i++) for (let j = i + 1; j < texts.length; j++)
      pairs.push({ i, j, cosines: layers.map((l) => cosine(vectors[i][l], vectors[j][l])) });
    return { receipt, parts: [
      h("ol", { class: "sentences" }, texts.map((text, i) => h("li", { dir: "auto" },
        marked(text, [places[i]], (_, part) => h("mark", {}, part))))),
      h("p", { class: "legend" },
        h("span", {}, h("i", { class: "stroke one", "aria-hidden": "true" }),
          "cosine of the word’s vectors in the two sentences, layer by layer"),
        pairs.length > 1
          ? h("span", {}, h("i", { class: "stroke", "aria-hidden": "true" }), "the other pairs") : null),
      h("div", { class: "small-charts" }, pairs.map((pair) => chart(pair, pairs, layers.length))),
      more("As a table", table(["Layer", ...pairs.map((p) => `${p.i + 1} and ${p.j + 1}`)],
        layers.map((l) => [`${l}`, ...pairs.map((p) => number(p.cosines[l]))]), "Cosines by layer")),
    ] };
  },
};

/** Where a word stands in a text, in code points; whole words are preferred. */
function place(text, given, i) {
  const escaped = given.trim().replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
  const whole = new RegExp(`(?<![\\p{L}\\p{N}])${escaped}(?![\\p{L}\\p{N}])`, "iu").exec(text);
  const found = whole ?? new RegExp(escaped, "iu").exec(text);
  if (!escaped || !found) throw new Error(`Sentence ${i + 1} does not have the word.`);
  const start = Array.from(text.slice(0, found.index)).length;
  return { start, end: start + Array.from(found[0]).length };
}

function mean(vectors) {
  return vectors[0].map((_, k) => vectors.reduce((sum, v) => sum + v[k], 0) / vectors.length);
}

function cosine(a, b) {
  const dot = (x, y) => x.reduce((sum, value, k) => sum + value * y[k], 0);
  return dot(a, b) / Math.sqrt(dot(a, a) * dot(b, b));
}

/** One pair's line over the layers, the others grey behind it. */
function chart({ i, j, cosines }, pairs, count) {
  const [width, height, left, top, right, bottom] = [200, 140, 40, 10, 26, 24];
  // The same axis for all pairs, from the quarter below the least cosine.
  const low = Math.min(0.75, Math.floor(4 * Math.min(...pairs.flatMap((p) => p.cosines))) / 4);
  const x = (layer) => left + (layer / (count - 1)) * (width - left - right);
  const y = (value) => top + ((1 - value) / (1 - low)) * (height - top - bottom);
  const path = (values) => values.map((v, l) => `${l ? "L" : "M"}${x(l).toFixed(1)} ${y(v).toFixed(1)}`)
    .join("");
  const others = pairs.filter((p) => p.i !== i || p.j !== j);
  const last = cosines[count - 1];
  const name = `Sentences ${i + 1} and ${j + 1}`;
  return h("figure", {},
    h("figcaption", {}, name),
    s("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label":
        `${name}: cosine ${number(cosines[0], 2)} at the embeddings, ${number(last, 2)} at the top` },
    [low, (low + 1) / 2, 1].map((v) => [
      s("line", { class: "grid", x1: left, x2: width - right, y1: y(v), y2: y(v) }),
      s("text", { x: left - 6, y: y(v) + 4, "text-anchor": "end" }, number(v, 2)),
    ]),
    s("text", { x: left, y: height - 6 }, "0"),
    s("text", { x: width - right, y: height - 6, "text-anchor": "end" }, `layer ${count - 1}`),
    others.map((p) => s("path", { class: "line others", d: path(p.cosines) })),
    s("path", { class: "line one", d: path(cosines) }),
    s("circle", { class: "mark one", cx: x(count - 1), cy: y(last), r: 3 }),
    s("text", { class: "title", x: width - 2, y: y(last) + (y(last) < 26 ? 17 : -7), "text-anchor": "end" }, number(last, 2))));
}

export const panels = [compare, tokens, word];
