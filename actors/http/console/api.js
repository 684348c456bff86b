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

export function setToken(given) {
  token = given;
  if (given === null) sessionStorage.removeItem(KEY);
  else sessionStorage.setItem(KEY, given);
}

export async function ask(method, path, body) {
  const headers = { authorization: `Bearer ${token}` };
  if (body !== undefined) headers["content-type"] = "application/json";
  let answer;
  try {
    answer = await fetch(path, { method, headers, body: body === undefined ? undefined : JSON.stringify(body) });
  } catch {
    throw new Problem({ status: 0, detail: "the server cannot be reached" });
  }
  let document;
  try {
    document = await answer.json();
  } catch {
    document = { status: answer.status, detail: `HTTP ${answer.status}` };
  }
  if (!answer.ok) throw new Problem({ status: answer.status, ...document });
  return document;
}
