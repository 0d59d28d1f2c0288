// What the page asks the server, and the shapes of its answers: the one file that knows routes.

let key = "";

export function useKey(given) {
  key = given.trim();
}

/** What the server answered in place of what was asked; `status` 0: it did not answer. */
export class ServerError extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

const PATIENCE = 60_000; // milliseconds

async function ask(path, body) {
  const headers = { accept: "application/json" };
  if (body !== undefined) headers["content-type"] = "application/json";
  if (key) headers.authorization = `Bearer ${key}`;
  const started = performance.now();
  let response;
  let text;
  try {
    response = await fetch(path, {
      method: body === undefined ? "GET" : "POST",
      headers,
      body: body === undefined ? undefined : JSON.stringify(body),
      signal: AbortSignal.timeout(PATIENCE),
      credentials: "omit",
      cache: "no-store",
    });
    text = await response.text();
  } catch (error) {
    const why = error.name === "TimeoutError" ? "has not answered in a minute" : "cannot be reached";
    throw new ServerError(0, `The server ${why}.`);
  }
  let answer;
  try {
    answer = JSON.parse(text);
  } catch {
    if (response.ok) throw new ServerError(response.status, "The answer is no JSON.");
  }
  if (!response.ok) throw new ServerError(response.status, reason(answer, response));
  return { answer, milliseconds: performance.now() - started };
}

function reason(answer, response) {
  const error = answer?.error ?? answer?.detail ?? answer;
  const said = typeof error === "string" ? error : error?.message ?? error?.[0]?.msg;
  return said || response.statusText || "no reason given";
}

/** The models: their names, heads (name, kind, labels), number of layers, and examples of their
 * cards. */
export async function models() {
  const { answer } = await ask("v1/models");
  return answer.data.map((model) => {
    const heads = model.heads.map((name) => ({ name, kind: name, labels: [] }));
    return {
      name: model.id, heads: [...heads, ...model.tasks], layers: model.layers,
      examples: model.examples ?? [],
    };
  });
}

/** Ask one route; `{answer, receipt}`, the receipt as every reply gives it. */
export async function post(path, body) {
  const { answer, milliseconds } = await ask(path, body);
  return {
    answer,
    receipt: {
      model: answer.model,
      sha256: answer.sha256,
      layers: answer.layers,
      pooling: answer.pooling,
      normalized: answer.normalized,
      tokens: answer.tokens_used,
      truncated: answer.truncated,
      milliseconds,
      curl: curl(path, body),
    },
  };
}

/** The command of a shell that asks the same; the key is left to whoever runs it. */
function curl(path, body) {
  const quote = (text) => `'${text.replaceAll("'", "'\\''")}'`;
  return [
    `curl ${quote(new URL(path, location.href).href)}`,
    "-H 'Content-Type: application/json'",
    ...(key ? ['-H "Authorization: Bearer $KEY"'] : []),
    `-d ${quote(JSON.stringify(body))}`,
  ].join(" ");
}
