// The panels for vectors and tokens: the words nearest to a word, the cosines of texts, and the tokens
// of a text.

import { bars, characters, h, marked, more, number, roving, table } from "./dom.js";
import { post } from "./server.js";

const MOST = 1000; // the maximum number of tokens that are shown

const LAYERS = {
  name: "layers",
  label: "Layers",
  kind: "choice",
  value: "",
  choices: (model) => [
    ["", "as the model says"],
    ...Array.from({ length: model.layers + 1 }, (_, i) =>
      [`${model.layers - i}`, layerName(model.layers - i, model.layers)]),
    ...(model.layers >= 4 ? [["-4,-3,-2,-1", "the last four, concatenated"]] : []),
  ],
};

const POOLING = {
  name: "pooling",
  label: "Pooling",
  kind: "choice",
  value: "",
  choices: () => [["", "as the model says"], ...["mean", "cls", "max", "weighted"].map(
    (name) => [name, name])],
};

export function layerName(layer, count) {
  if (layer === 0) return "0, the embeddings";
  return layer === count ? `${layer}, the last` : `${layer}`;
}

/** Return the part of a request that the fields `layers` and `pooling` determine. */
function asked({ layers, pooling }) {
  const body = {};
  if (layers) body.layers = layers.split(",").map(Number);
  if (pooling) body.pooling = pooling;
  return body;
}

const nearest = {
  name: "nearest",
  title: "Nearest words",
  about: "The words whose vectors have the largest cosine to that of a word.",
  kinds: ["words"],
  needs: "a vector for each word, as word2vec and fastText have",
  optional: true,
  fields: [
    { name: "word", label: "Word", kind: "line", value: "water" },
    { name: "top", label: "Words to show", kind: "count", value: 10, least: 1, most: 100 },
  ],
  async run({ word, top, ...rest }) {
    const { answer, receipt } = await post("nearest", { ...rest, input: word.trim(), top_k: top });
    return { receipt, parts: [
      bars(answer.results[0].map(({ word: near, cosine }) =>
        ({ label: near, share: cosine, shown: number(cosine) })), "Nearest words, with cosines"),
    ] };
  },
};

const compare = {
  name: "compare",
  title: "Compare sentences",
  about: "The cosine between the vectors of every two sentences.",
  kinds: ["vectors"],
  needs: "an encoder that gives vectors",
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
    // The colours span the cosines that occur, since those of raw BERT vectors are nearly equal.
    const off = cosines.flatMap((row, i) => row.filter((_, j) => i !== j));
    const low = Math.min(...off);
    const high = Math.max(...off);
    const share = (value) => (high > low ? (Math.min(value, high) - low) / (high - low) : 0.5);
    const dense = texts.length > 8;
    const cell = (value, i, j) => h("td", {
      // On the darker half of the colours, only black text can be read.
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
  kinds: ["vectors"],
  needs: "an encoder that gives vectors",
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

/** Return rows of tokens from parallel lists. */
function read(result) {
  return result.tokens.map((token, i) => ({
    token,
    id: result.ids?.[i],
    start: result.offsets[i][0],
    end: result.offsets[i][1],
  }));
}

export const panels = [nearest, compare, tokens];
