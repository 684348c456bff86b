// A client of ray-pubsub's HTTP interface for browsers, Node, Deno and Bun: one module without dependencies, types beside it in
// ray-pubsub.d.mts. Nothing has to be built.
//
//   import { PubSubClient } from "./ray-pubsub.mjs";
//   const client = new PubSubClient("http://127.0.0.1:8480", { token });
//   await client.subscribe("desk-7", "price <= 580", { id: "s1" });
//   await client.publish({ model: "iphone5s", price: 550 });
//   for await (const delivery of client.stream("desk-7")) console.log(delivery.event);

const RETRIED = new Set([429, 503]);
const LONGEST_PAUSE = 10_000;
// The key itself: within a text its quotes are escaped.
const LARGE_EVENT_ID = /(?<!\\)"event_id":\s*(-?\d{16,})(?=\s*[,}])/g;

/** The server's error with all its fields (RFC 9457). */
export class ProblemError extends Error {
  constructor(document) {
    super(document.detail ?? document.title ?? "an error");
    this.name = "ProblemError";
    this.document = document;
    this.status = document.status;
    this.kind = (document.type ?? "").split(":").pop();
    this.position = document.position;
  }
}

export class PubSubClient {
  #url;
  #headers;
  #patience;
  #warn;

  constructor(url, { token, patience = 10_000, warn = console.warn } = {}) {
    this.#warn = warn;
    this.#url = url.replace(/\/+$/, "");
    this.#headers = token === undefined ? {} : { authorization: `Bearer ${token}` };
    this.#patience = patience;
  }

  // ---------------------------------------------------------------------------------------------------------- subscribing

  async subscribe(subscriber, expression, { id, data, tags } = {}) {
    const body = { subscriber, expression, id, data, tags };
    const answer = await this.#json("POST", "/v1/subscriptions", { body, key: newKey() });
    return answer.id;
  }

  async unsubscribe(id) {
    return (await this.#json("DELETE", `/v1/subscriptions/${idPart(id)}`)).removed;
  }

  async unsubscribeMany({ tag }) {
    return (await this.#json("DELETE", "/v1/subscriptions", { query: { tag } })).removed;
  }

  async subscription(id) {
    return this.#json("GET", `/v1/subscriptions/${idPart(id)}`);
  }

  async *subscriptions({ subscriber, search, tag } = {}) {
    let after = 0;
    while (after !== null) {
      const page = await this.#json("GET", "/v1/subscriptions", { query: { subscriber, search, tag, after, limit: 1000 } });
      yield* page.items;
      after = page.after;
    }
  }

  async load(subscriptions) {
    const body = [...subscriptions].map((each) => JSON.stringify(each) + "\n").join("");
    return this.#json("POST", "/v1/subscriptions/bulk", { text: body, kind: "application/x-ndjson" });
  }

  async check(expression) {
    await this.#json("POST", "/v1/expressions/check", { body: { expression } });
  }

  // ---------------------------------------------------------------------------------------------------------- publishing

  async publish(events, { eventId, deliver, strict, matches, withData, idempotencyKey = newKey() } = {}) {
    const query = { event_id: eventId, deliver, strict, matches, data: withData };
    if (!Array.isArray(events)) return this.#json("POST", "/v1/events", { body: events, query, key: idempotencyKey });
    const text = events.map((each) => JSON.stringify(each) + "\n").join("");
    return this.#json("POST", "/v1/events", { text, kind: "application/x-ndjson", query, key: idempotencyKey });
  }

  // ---------------------------------------------------------------------------------------------------------- consuming

  async poll(subscriber, { limit = 100, wait = 0, visibilityTimeout, withData } = {}) {
    const query = { limit, wait, visibility_timeout: visibilityTimeout, data: withData };
    const answer = await this.#json("POST", `${of(subscriber)}/poll`, { query });
    if (answer.warning !== undefined) this.#warn(answer.warning);
    return answer.items;
  }

  /** Deliveries as they arrive, until `signal` is aborted. After a lost connection it continues behind the last one that was taken. */
  async *stream(subscriber, { ack = "auto", lastEventId, withData, signal } = {}) {
    let last = lastEventId;
    let pause = 200;
    while (!signal?.aborted) {
      try {
        const headers = { ...this.#headers, accept: "text/event-stream" };
        if (last !== undefined) headers["last-event-id"] = String(last);
        const answer = await fetch(`${this.#url}${of(subscriber)}/stream?ack=${ack}${withData ? "&data=true" : ""}`, { headers, signal });
        if (!answer.ok) throw await problem(answer);
        for await (const data of messages(answer.body)) {
          const delivery = parsed(data);
          pause = 200;
          yield delivery;
          last = delivery.sequence;
        }
      } catch (error) {
        if (signal?.aborted) return;
        if (error instanceof ProblemError && !RETRIED.has(error.status)) throw error;
      }
      await sleep(pause);
      pause = Math.min(2 * pause, LONGEST_PAUSE);
    }
  }

  async ack(deliveries) {
    return this.#settle("ack", deliveries, {});
  }

  async nack(deliveries, { delay = 0, reason = "refused" } = {}) {
    return this.#settle("nack", deliveries, { delay, reason });
  }

  async release(deliveries) {
    return this.#settle("release", deliveries, {});
  }

  async extend(deliveries, seconds) {
    return this.#settle("extend", deliveries, { seconds });
  }

  async #settle(method, deliveries, more) {
    const total = { accepted: 0, stale: [] };
    const bySubscriber = new Map();
    for (const each of Array.isArray(deliveries) ? deliveries : [deliveries]) {
      if (!bySubscriber.has(each.subscriber)) bySubscriber.set(each.subscriber, []);
      bySubscriber.get(each.subscriber).push(each.receipt);
    }
    for (const [subscriber, receipts] of bySubscriber) {
      const report = await this.#json("POST", `${of(subscriber)}/${method}`, { body: { receipts, ...more } });
      total.accepted += report.accepted;
      total.stale.push(...report.stale);
    }
    return total;
  }

  async deadLetters(subscriber, { limit = 100 } = {}) {
    return (await this.#json("GET", `${of(subscriber)}/dead-letters`, { query: { limit } })).items;
  }

  async redrive(subscriber, sequences) {
    return (await this.#json("POST", `${of(subscriber)}/dead-letters/redrive`, { body: { sequences } })).redriven;
  }

  async setWebhook(name, subscriber, url, { secret, concurrency, withData } = {}) {
    const body = { subscriber, url, secret, concurrency, data: withData };
    return (await this.#json("PUT", `/v1/webhooks/${encodeURIComponent(name)}`, { body })).secret;
  }

  async removeWebhook(name) {
    return (await this.#json("DELETE", `/v1/webhooks/${encodeURIComponent(name)}`)).removed;
  }

  // ---------------------------------------------------------------------------------------------------------- looking in

  async explain(event, id) {
    return this.#json("POST", "/v1/explain", { body: { event, id } });
  }

  async stats() {
    return this.#json("GET", "/v1/stats");
  }

  // ---------------------------------------------------------------------------------------------------------- transport

  async #json(method, path, { body, text, kind = "application/json", query = {}, key } = {}) {
    const given = Object.entries(query).filter(([, value]) => value !== undefined);
    const url = this.#url + path + (given.length ? `?${new URLSearchParams(given.map(([name, value]) => [name, String(value)]))}` : "");
    const headers = { ...this.#headers };
    const content = text ?? (body === undefined ? undefined : JSON.stringify(body));
    if (content !== undefined) headers["content-type"] = kind;
    if (key !== undefined) headers["idempotency-key"] = key;
    const ends = Date.now() + this.#patience;
    let pause = 100;
    for (;;) {
      let wait = pause;
      try {
        const answer = await fetch(url, { method, headers, body: content });
        if (answer.ok) return parsed(await answer.text());
        const found = await problem(answer);
        const after = 1000 * Number(answer.headers.get("retry-after") ?? 0);
        if (!RETRIED.has(answer.status) || Date.now() + after > ends) throw found;
        wait = Math.max(after, pause);
      } catch (error) {
        const repeatable = key !== undefined || method !== "POST";
        if (error instanceof ProblemError || !repeatable || Date.now() + pause > ends) throw error;
      }
      await sleep(Math.min(wait, LONGEST_PAUSE));
      pause = Math.min(2 * pause, LONGEST_PAUSE);
    }
  }
}

/** The data of each server-sent event of a body. */
async function* messages(body) {
  const decoder = new TextDecoder();
  let text = "";
  for await (const chunk of body) {
    text += decoder.decode(chunk, { stream: true });
    const parts = text.split("\n\n");
    text = parts.pop();
    for (const part of parts) {
      const data = part.split("\n").filter((line) => line.startsWith("data: ")).map((line) => line.slice(6));
      if (data.length) yield data.join("\n");
    }
  }
}

/** A document whose events keep their ids: the server numbers them with 64 bits, and JSON.parse rounds beyond 2**53, where neighbours
 * become the same number. Such an id is a string of its digits. */
function parsed(text) {
  const exact = (whole, digits) => (Number.isSafeInteger(Number(digits)) ? whole : `"event_id":"${digits}"`);
  return JSON.parse(text.replace(LARGE_EVENT_ID, exact));
}

async function problem(answer) {
  try {
    return new ProblemError(await answer.json());
  } catch {
    return new ProblemError({ status: answer.status, detail: `HTTP ${answer.status}` });
  }
}

function of(subscriber) {
  return `/v1/subscribers/${encodeURIComponent(subscriber)}`;
}

function idPart(id) {
  if (typeof id === "number") return `int:${id}`;
  return encodeURIComponent(/^(int|str):/.test(id) ? `str:${id}` : id);
}

function newKey() {
  return crypto.randomUUID();
}

function sleep(milliseconds) {
  return new Promise((resolve) => setTimeout(resolve, milliseconds));
}
