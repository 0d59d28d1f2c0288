// The panels of heads: masked tokens, answers, entities, classes, next sentences, ranking.

import { bars, h, marked, more, number, percent, table } from "./dom.js";
import { post } from "./server.js";

/** Return the field that chooses among heads of these kinds; it is hidden if there is only one. */
export const TASK = (kinds) => ({
  name: "task", label: "Task head", kind: "choice", value: "", few: true,
  choices: (model) => model.heads.filter((head) => kinds.includes(head.kind))
    .map((head) => [head.name, head.name]),
});

const MASK = "[MASK]";

const blanks = {
  name: "fill",
  title: "Fill in blanks",
  about: `Write ${MASK} where a word is missing. The model judges each blank with the others left blank.`,
  kinds: ["masked_lm"],
  needs: "a masked-language-model head",
  fields: [
    { name: "text", label: `Text with ${MASK}`, kind: "long", insert: MASK,
      example: (texts) => texts.find((text) => text.includes(MASK)),
      value: "Paris is the [MASK] of France." },
    { name: "top", label: "Tokens a blank", kind: "count", value: 5, least: 1, most: 50 },
  ],
  async run({ text, top, ...rest }) {
    if (!text.includes(MASK)) throw new Error(`Write ${MASK} where a word is missing.`);
    const { answer, receipt } = await post("fill-mask", { ...rest, input: text, top_k: top });
    const [found] = answer.results;
    let at = 0;
    const filled = text.split(MASK).flatMap((part, i) => {
      if (i === 0) return [part];
      const best = found[at++]?.[0];
      return [h("mark", {}, best ? word(best.token_str) : MASK), part];
    });
    return { receipt, parts: [
      h("p", { class: "said", dir: "auto" }, filled),
      h("div", { class: "cards" }, found.map((blank, i) => h("section", { class: "card" },
        h("h3", {}, found.length > 1 ? `Blank ${i + 1}` : "Likeliest tokens"),
        bars(blank.map((t, n) => ({ label: t.token_str, share: t.score, good: n === 0 })),
          `Tokens for blank ${i + 1}`)))),
    ] };
  },
};

function word(token) {
  return token.startsWith("##") ? token.slice(2) : token;
}

const passage = {
  name: "ask",
  title: "Ask a passage",
  about: "The answer is a slice of the passage, or none.",
  kinds: ["span"],
  needs: "a head for spans (question answering)",
  fields: [
    { name: "question", label: "Question", kind: "line", value: "When was the bridge opened?" },
    { name: "context", label: "Passage", kind: "long", rows: 6,
      value: "The old bridge was built of oak and stood for two hundred years. " +
        "A bridge of stone was opened in 1836 and still carries the road to the harbour." },
    TASK(["span"]),
    { name: "top", label: "Answers", kind: "count", value: 3, least: 1, most: 20 },
  ],
  async run({ question, context, top, ...rest }) {
    const { answer, receipt } = await post("answer", { ...rest, input: { question, context }, top_k: top });
    const [best] = answer.results;
    const none = best.answer === "";
    const spans = none ? [] : [best];
    return { receipt, parts: [
      h("p", { class: "said", dir: "auto" }, none ? "No answer in this passage." : best.answer),
      h("p", { class: "passage", dir: "auto" }, marked(context, spans, (_, t) => h("mark", {}, t))),
      bars(best.answers.map((a, i) => ({
        label: a.answer || "(no answer)", share: a.score, good: i === 0 && !none,
      })), "Answers"),
    ] };
  },
};

const entities = {
  name: "tag",
  title: "Tag entities",
  about: "Spans of the text under the labels the model was taught.",
  kinds: ["tagging"],
  needs: "a tagging head",
  fields: [
    { name: "text", label: "Text", kind: "long", example: (texts) => texts[0],
      value: "Ada Lovelace met Charles Babbage in London in June 1833." },
    TASK(["tagging"]),
  ],
  async run({ text, ...rest }, model) {
    const { answer, receipt } = await post("tag", { ...rest, input: text });
    const found = answer.results[0].entities.map((e) => ({ ...e, label: e.entity_group }));
    // The colour of a label is determined by its index among the labels of the head.
    const known = model.heads.find((head) => head.name === answer.task)?.labels ?? [];
    const plain = known.map((label) => label.replace(/^[BIES]-/, ""));
    const labels = [...new Set([...plain, ...found.map((e) => e.label)])].filter((l) => l !== "O");
    const hue = (label) => `span hue${labels.indexOf(label) % 8}`;
    return { receipt, parts: [
      h("p", { class: "tagged", dir: "auto" }, marked(text, found, (e, t) =>
        h("span", { class: hue(e.label), dir: "auto" }, t, "\u00a0",
          h("b", { title: percent(e.score) }, e.label)))),
      found.length === 0 ? h("p", { class: "soft" }, "No entity found.") : null,
      more("As a table", table(["Text", "Label", "From", "To", "Probability"],
        found.map((e) => [e.word, e.label, e.start, e.end, percent(e.score)]), "Entities")),
    ] };
  },
};

const CLASSES = ["classification", "regression"];

/** Return the first head that predicts classes or numbers. */
function classified(model) {
  return model.heads.find((head) => CLASSES.includes(head.kind));
}

const classes = {
  name: "classify",
  title: "Classify",
  about: "A text, or a pair of texts where the model was taught pairs.",
  kinds: ["classification", "regression"],
  needs: "a head for classes or numbers",
  fields: [
    { name: "text", label: "Text", kind: "long", example: (texts) => texts[0],
      value: "This is a text to be classified." },
    { name: "text_pair", label: "Second text (only for pairs)", kind: "line", spare: true, value: "",
      example: (_, model) => classified(model)?.pairs ? "This is the second text." : undefined },
    TASK(["classification", "regression"]),
  ],
  async run({ text, text_pair: pair, ...rest }, model) {
    const input = pair ? [[text, pair]] : text;
    const { answer, receipt } = await post("classify", { ...rest, input });
    const [found] = answer.results;
    if (model.heads.find((head) => head.name === answer.task)?.kind === "regression") {
      return { receipt, parts: [h("p", { class: "said" }, number(found[0].score))] };
    }
    const sorted = [...found].sort((a, b) => b.score - a.score);
    // With several labels, each with a probability of at least 0.5 holds, as in `predict`.
    const several = model.heads.find((head) => head.name === answer.task)?.multi_label;
    const held = several ? sorted.filter((c) => c.score >= 0.5) : sorted.slice(0, 1);
    return { receipt, parts: [
      h("p", { class: "said" }, h("bdi", {}, held.map((c) => c.label).join(", ") || "No label.")),
      bars(sorted.map((c) => ({ label: c.label, share: c.score, good: held.includes(c) })), "Classes"),
    ] };
  },
};

const follows = {
  name: "follow",
  title: "Does it follow?",
  about: "How likely the second sentence is the one after the first.",
  kinds: ["next_sentence"],
  needs: "a next-sentence head",
  fields: [
    { name: "text", label: "First sentence", kind: "line", value: "He opened the fridge." },
    { name: "text_pair", label: "Second sentence", kind: "line", value: "There was no milk left." },
  ],
  async run({ text, text_pair: pair, ...rest }) {
    const { answer, receipt } = await post("next-sentence", { ...rest, input: [text, pair] });
    const share = answer.results[0].probability;
    return { receipt, parts: [
      bars([
        { label: "follows", share, good: share >= 0.5 },
        { label: "from elsewhere", share: 1 - share, good: share < 0.5 },
      ], "Does the second sentence follow"),
    ] };
  },
};

const ranks = {
  name: "rank",
  title: "Rank passages",
  about: "Passages by how well they fit a query, best first.",
  kinds: ["ranker"],
  needs: "a head that was taught pairs of texts, or sentence vectors",
  fields: [
    { name: "query", label: "Query", kind: "line", value: "How do I keep bread fresh?" },
    { name: "texts", label: "Passages, one a line", kind: "lines", rows: 4,
      value: "Wrap the loaf in a cloth and keep it in a dry box.\n" +
        "The bakery opens at six.\nYeast needs sugar and warmth to rise." },
    TASK(["ranker"]),
  ],
  async run({ query, texts, ...rest }) {
    const { answer, receipt } = await post("rerank", { ...rest, query, documents: texts });
    const low = Math.min(0, ...answer.results.map((r) => r.score));
    const high = Math.max(1, ...answer.results.map((r) => r.score));
    const sorted = [...answer.results].sort((a, b) => b.score - a.score);
    return { receipt, parts: [
      bars(sorted.map((r, i) => ({
        label: texts[r.index],
        share: (r.score - low) / (high - low),
        shown: number(r.score),
        good: i === 0,
      })), "Passages, best first"),
      h("p", { class: "soft" }, scoredBy(answer)),
    ] };
  },
};

const FUNCTIONS = {
  cosine: "cosine", dot: "dot product", euclidean: "negative Euclidean distance",
  manhattan: "negative Manhattan distance",
};

/** Return what the scores of a ranking are. */
function scoredBy({ task, label, similarity }) {
  if (similarity) return `The ${FUNCTIONS[similarity]} of the vectors of query and passage.`;
  return `Scored by the head ${task}${label ? `: the probability of “${label}”` : ""}.`;
}

export const panels = [blanks, passage, entities, classes, follows, ranks];
