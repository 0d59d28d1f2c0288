// Requests to the server and the form of its replies. Only this file knows the routes.

let key = "";

export function useKey(given) {
  key = given.trim();
}

/** An error that the server returned; `status` is 0 if there was no reply. */
export class ServerError extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

const PATIENCE = 60_000; // milliseconds until a request is given up

/** Return a response that is no error, and the time that the request took. */
async function send(path, body, signal) {
  const headers = { accept: "application/json" };
  if (body !== undefined) headers["content-type"] = "application/json";
  if (key) headers.authorization = `Bearer ${key}`;
  const started = performance.now();
  const response = await fetch(path, {
    method: body === undefined ? "GET" : "POST",
    headers,
    body: body === undefined ? undefined : JSON.stringify(body),
    signal,
    credentials: "omit",
    cache: "no-store",
  });
  if (response.ok) return { response, started };
  const text = await response.text();
  throw new ServerError(response.status, reason(parsed(text), response));
}

/** Return the value of a JSON text; undefined if it is not JSON. */
function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function unreached(error) {
  if (error instanceof ServerError) return error;
  const why = error.name === "TimeoutError" ? "has not answered in a minute" : "cannot be reached";
  return new ServerError(0, `The server ${why}.`);
}

async function ask(path, body) {
  try {
    const { response, started } = await send(path, body, AbortSignal.timeout(PATIENCE));
    const answer = parsed(await response.text());
    if (answer === undefined) throw new ServerError(response.status, "The answer is no JSON.");
    return { answer, milliseconds: performance.now() - started };
  } catch (error) {
    throw unreached(error);
  }
}

function reason(answer, response) {
  const error = answer?.error ?? answer?.detail ?? answer;
  const said = typeof error === "string" ? error : error?.message ?? error?.[0]?.msg;
  return said || response.statusText || "no reason given";
}

/** Return the models with their names, heads (name, kind, labels), number of layers, and the
 * examples of their cards. In addition to the heads that the server lists, a model that continues
 * prompts has the head `continuation`, one with vectors, vectors of words or attention maps has
 * `vectors`, `words` or `attention`; each task that reads pairs has `ranker`, and so have sentence vectors. */
export async function models() {
  const { answer } = await ask("v1/models");
  return answer.data.map((model) => {
    const names = [...model.heads, ...(model.generates ? ["continuation"] : []),
      ...(model.vectors ? ["vectors"] : []), ...(model.words ? ["words"] : []),
      ...(model.attention_heads ? ["attention"] : [])];
    const rankers = model.tasks.filter((task) =>
      ["classification", "regression"].includes(task.kind) && task.pairs !== false)
      .map((task) => ({ ...task, kind: "ranker" }));
    if (model.similarity) { // without a task the name is empty, and the request names none
      const trained = model.tasks.find((task) => task.kind === "similarity");
      rankers.push({ labels: [], name: "", ...trained, kind: "ranker" });
    }
    const heads = names.map((name) => ({ name, kind: name, labels: [] }));
    return {
      name: model.id, heads: [...heads, ...model.tasks, ...rankers], layers: model.layers,
      examples: model.examples ?? [],
    };
  });
}

/** Call a route; return `{answer, receipt}`. The receipt has the facts that every reply states. */
export async function post(path, body) {
  const { answer, milliseconds } = await ask(path, body);
  return { answer, receipt: receipt(path, body, answer, milliseconds) };
}

/** Call a route that streams: `more(part)` is called with each part. `answer` is the last event, or
 * undefined if `signal` stopped the request before it. */
export async function stream(path, body, signal, more) {
  const asked = { ...body, stream: true };
  const began = performance.now();
  let answer;
  try {
    const { response } = await send(path, asked, signal);
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    for (;;) {
      const { value, done } = await reader.read();
      if (done) break;
      const events = (rest + value).split("\n\n");
      rest = events.pop();
      for (const event of events) {
        const part = parsed(event.replace(/^data: /, ""));
        if (part?.error) throw new ServerError(response.status, part.error.message);
        if (part?.text !== undefined) more(part);
        else answer = part ?? answer;
      }
    }
    if (!answer) throw new ServerError(response.status, "The answer broke off.");
  } catch (error) {
    if (!signal.aborted) throw unreached(error);
  }
  const milliseconds = performance.now() - began;
  return { answer, receipt: receipt(path, asked, answer ?? { model: body.model }, milliseconds) };
}

function receipt(path, body, answer, milliseconds) {
  return {
    model: answer.model,
    sha256: answer.sha256,
    layers: answer.layers,
    pooling: answer.pooling,
    normalized: answer.normalized,
    tokens: answer.tokens_used,
    truncated: answer.truncated,
    milliseconds,
    curl: curl(path, body),
  };
}

/** Return the curl command of a request; the API key is not part of it. */
function curl(path, body) {
  const quote = (text) => `'${text.replaceAll("'", "'\\''")}'`;
  return [
    `curl ${quote(new URL(path, location.href).href)}`,
    "-H 'Content-Type: application/json'",
    ...(key ? ['-H "Authorization: Bearer $KEY"'] : []),
    `-d ${quote(JSON.stringify(body))}`,
  ].join(" ");
}
