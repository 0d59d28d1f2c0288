// The panels of models that generate. Text is shown as it arrives, and a button stops it.

import { h } from "./dom.js";
import { stream } from "./server.js";
import { TASK } from "./words.js";

/** Return a panel for a streaming route. `body` makes the request from the values of the form, and
 * `drawn` returns what is shown, given these values and the texts so far. */
function generating({ path, body, drawn, ...panel }) {
  return {
    ...panel,
    streams: true,
    optional: true,
    async run({ model, truncate, ...values }, _, keep, { show, signal }) {
      const texts = []; // prompt -> its texts
      const reasons = new Set();
      const draw = () => drawn(values, texts);
      const { answer, receipt } = await stream(path, { model, truncate, ...body(values) }, signal, (part) => {
        const own = (texts[part.prompt] ??= []);
        own[part.number] = (own[part.number] ?? "") + part.text;
        if (part.reason) reasons.add(part.reason);
        show(draw());
      });
      const ended = answer ? [...reasons].map((reason) => ENDS[reason]).join("; ") : "You stopped it.";
      const count = answer ? `${answer.tokens_generated} tokens. ` : "";
      return { receipt, parts: [...draw(), h("p", { class: "soft" }, `${count}${ended}`)] };
    },
  };
}

const ENDS = {
  stop: "The model ended its text.",
  length: "A text has as many tokens as it may, or as the model reads.",
};

const continues = generating({
  name: "generate",
  title: "Continue a text",
  about: "The model goes on from a prompt, a token at a time.",
  kinds: ["continuation"],
  needs: "a model that predicts the next token",
  path: "generate",
  fields: [
    { name: "text", label: "Prompt", kind: "long", example: (texts) => texts[0], value: "Once upon a time" },
    { name: "tokens", label: "New tokens", kind: "count", value: 60, least: 1, most: 4096 },
    { name: "texts", label: "Texts", kind: "count", value: 1, least: 1, most: 8 },
    { name: "sample", label: "Sample (else the most probable token each time)", kind: "check", value: true },
    { name: "temperature", label: "Temperature", kind: "count", value: 0.8, least: 0.05, most: 5, step: 0.05 },
    { name: "top_p", label: "Top p", kind: "count", value: 0.95, least: 0.05, most: 1, step: 0.05 },
    { name: "top_k", label: "Top k (0: all)", kind: "count", value: 0, least: 0, most: 1000 },
    { name: "penalty", label: "Repetition penalty", kind: "count", value: 1, least: 0.5, most: 3, step: 0.05 },
  ],
  body: ({ text, tokens, texts, sample, temperature, top_p: topP, top_k: topK, penalty }) => ({
    input: text, max_new_tokens: tokens, num: texts, repetition_penalty: penalty,
    ...(sample ? { sample, temperature, top_p: topP, ...(topK ? { top_k: topK } : {}) } : {}),
  }),
  drawn: ({ text }, [texts = []]) => texts.map((more) =>
    h("p", { class: "passage", dir: "auto" }, h("span", { class: "soft" }, text), more)),
});

const translates = generating({
  name: "translate",
  title: "Translate",
  about: "Sentences by beam search, each shown when it is done.",
  kinds: ["translation"],
  needs: "a model that was trained on pairs of sentences",
  path: "translate",
  fields: [
    { name: "texts", label: "Sentences, one a line", kind: "lines", rows: 4, value: "A man is sleeping." },
    { name: "beam", label: "Beams (1: greedy)", kind: "count", value: 4, least: 1, most: 32 },
  ],
  body: ({ texts, beam }) => ({ input: texts, beam }),
  drawn: ({ texts }, found) => texts.map((text, i) => h("section", { class: "card" },
    h("p", { class: "soft", dir: "auto" }, text),
    h("p", { class: "passage", dir: "auto" }, found[i]?.[0] ?? "…"))),
});

const writes = generating({
  name: "write",
  title: "Write a target",
  about: "What the model was fine-tuned to write of a text, such as a summary or a correction.",
  kinds: ["generation"],
  needs: "a model of `bertwright finetune generation`",
  path: "text2text",
  fields: [
    { name: "text", label: "Source", kind: "long", rows: 5, example: (texts) => texts[0],
      value: "This is a text of which a target is written." },
    TASK(["generation"]),
    { name: "beam", label: "Beams (1: greedy)", kind: "count", value: 1, least: 1, most: 32 },
  ],
  body: ({ text, ...rest }) => ({ input: text, ...rest }),
  drawn: (_, [texts = []]) => texts.map((text) => h("p", { class: "said", dir: "auto" }, text)),
});

export const panels = [continues, writes, translates];
