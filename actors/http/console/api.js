// Requests to the server that has sent this page, with the token that the user has entered. It is kept for this tab only.

const KEY = "ray-pubsub-token";
let token = sessionStorage.getItem(KEY);

export class Problem extends Error {
  constructor(document) {
    super(document.detail ?? "the server has answered with an error");
    this.document = document;
    this.status = document.status;
  }
}

export function hasToken() {
  return token !== null;
}

/** Whether the server answers without a token (serve --open). */
export async function needsNone() {
  return token === null && (await fetch("/v1/stats").then((answer) => answer.status !== 401, () => false));
}

export function setToken(given) {
  token = given;
  if (given === null) sessionStorage.removeItem(KEY);
  else sessionStorage.setItem(KEY, given);
}

/** An id as paths and documents have it: numbers say that they are numbers, and texts that look like that say that they are texts. */
export function idPart(id) {
  if (typeof id === "number" && !Number.isSafeInteger(id)) throw new Problem({ status: 0, detail: "this browser does not know the number exactly" });
  return typeof id === "string" ? (/^(int|str):/.test(id) ? `str:${id}` : id) : `int:${id}`;
}

/** `body`: a value, or JSON as text, whose numbers then stay as they were written. */
export async function ask(method, path, body) {
  const headers = token === null ? {} : { authorization: `Bearer ${token}` };
  if (body !== undefined) headers["content-type"] = "application/json";
  let answer;
  try {
    answer = await fetch(path, { method, headers, body: typeof body === "string" || body === undefined ? body : JSON.stringify(body) });
  } catch {
    throw new Problem({ status: 0, detail: "the server cannot be reached" });
  }
  let document;
  try {
    document = JSON.parse(await answer.text(), exact);
  } catch {
    document = { status: answer.status, detail: `HTTP ${answer.status}` };
  }
  if (!answer.ok) throw new Problem({ status: answer.status, ...document });
  return document;
}

/** Whole numbers beyond 2**53, such as ids, would be rounded. */
function exact(name, value, context) {
  return typeof value === "number" && !Number.isSafeInteger(value) && /^-?\d+$/.test(context?.source ?? "") ? BigInt(context.source) : value;
}
