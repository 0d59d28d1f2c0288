// The panel that shows the attention heads of one layer (dom.js draws them).

import { h, stage } from "./dom.js";
import { post } from "./server.js";
import { layerName } from "./vectors.js";

const MOST = 64; // the maximum number of tokens that are drawn

export const attention = {
  name: "attention",
  title: "See attention",
  about: "Where each token looks, by layer and attention head. Attention shows what is read from " +
    "where; it is no explanation of what the model says.",
  kinds: ["attention"],
  needs: "an encoder with attention heads",
  fields: [
    { name: "text", label: "Text", kind: "long", example: (texts) => texts[0],
      value: "The animal did not cross the street because it was too tired." },
    { name: "text_pair", label: "Second text (may be empty)", kind: "line", value: "", spare: true },
    { name: "layer", label: "Layer", kind: "choice", value: "1", live: true,
      choices: (model) => Array.from({ length: model.layers }, (_, i) =>
        [`${i + 1}`, layerName(i + 1, model.layers)]) },
    { name: "head", kind: "kept", value: "1" },
    { name: "view", kind: "kept", value: "lines" },
  ],
  async run({ text, text_pair: pair, layer, head, view, ...rest }, model, keep) {
    const { answer, receipt } = await post("attention", {
      ...rest, input: pair ? [text, pair] : text, layers: [Number(layer)],
    });
    const tokens = answer.tokens.slice(0, MOST);
    const heads = answer.attentions[0].map((rows) =>
      rows.slice(0, MOST).map((row) => row.slice(0, MOST)));
    const state = {
      rows: tokens, columns: tokens, layers: [{ number: layer, heads }], keep, layer: 0,
      head: Math.min(Math.max(Number(head) - 1 || 0, 0), heads.length - 1),
      view: view === "matrix" ? "matrix" : "lines",
    };
    const left = answer.tokens.length - tokens.length;
    return { receipt, parts: [
      stage(state),
      left > 0 ? h("p", { class: "soft" }, `The first ${MOST} tokens; ${left} more are not drawn.`) : null,
    ] };
  },
};
