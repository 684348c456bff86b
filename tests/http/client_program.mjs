// What a program in JavaScript does with the client, against the server whose URL and token are the arguments.
import assert from "node:assert/strict";
import { ProblemError, PubSubClient } from "../../clients/typescript/ray-pubsub.mjs";

const [url, token] = process.argv.slice(2);
const warnings = [];
const client = new PubSubClient(url, { token, warn: (text) => warnings.push(text) });

assert.equal(await client.subscribe("ts", "ts < 5", { id: 51 }), 51);
const report = await client.load([
  { id: "int:1", subscriber: "ts", expression: "ts >= 5" },
  { id: "bad", subscriber: "ts", expression: "ts >" },
]);
assert.deepEqual([report.added, report.rejections[0].position], [1, 1]);
const listed = [];
for await (const each of client.subscriptions({ subscriber: "ts" })) listed.push(each.id);
assert.deepEqual(listed, [51, "int:1"]);
assert.equal((await client.subscription("int:1")).expression, "ts >= 5");
await assert.rejects(client.check("ts >"), (error) => error instanceof ProblemError && error.position === 4);

assert.equal((await client.publish([{ ts: 1 }, { ts: 7 }], { matches: true })).results[1].matches[0].id, "int:1");
const twice = { idempotencyKey: "ts-same" };
assert.equal((await client.publish({ ts: 2 }, twice)).deliveries.delivered, 1);
assert.equal((await client.publish({ ts: 2 }, twice)).deliveries.duplicates, 1);
const deliveries = await client.poll("ts", { wait: 5 });
assert.deepEqual(deliveries.map((each) => each.event.ts), [1, 7, 2]);
assert.equal(new Set(deliveries.map((each) => each.event_id)).size, 3, "numbers of 64 bits are not rounded to the same one");
assert.equal((await client.ack(deliveries.slice(0, 2))).accepted, 2);
assert.equal((await client.extend(deliveries.slice(2), 60)).accepted, 1);
assert.equal((await client.release(deliveries.slice(2))).accepted, 1);
let [again] = await client.poll("ts");
for (let attempt = 1; attempt < 3; attempt++) {
  await client.nack(again, { reason: "no" });
  [again] = await client.poll("ts");
}
await client.nack(again, { reason: "no" });
assert.equal((await client.deadLetters("ts"))[0].reason, "no");
assert.equal(await client.redrive("ts"), 1);

const stop = new AbortController();
for await (const delivery of client.stream("ts", { signal: stop.signal })) {
  assert.equal(delivery.event.ts, 2);
  assert.equal(delivery.event_id, again.event_id);
  break;
}
stop.abort();
assert.deepEqual(await client.poll("tss"), []);
assert.match(warnings[0], /nobody has subscribed as 'tss'.*'ts'/);
assert.equal(await client.subscribe("ts", "ts = 77", { id: "tagged", data: { title: "x" }, tags: ["ts-tag"] }), "tagged");
const carrying = await client.publish({ ts: 77 }, { withData: true, deliver: false });
assert.ok(Math.abs(carrying.moment / 1000 - Date.now()) < 600_000);
const named = await client.publish([{ name: 9007199254740991, text: '{"event_id":9007199254740993}' }], { eventId: "name", matches: true });
assert.equal(named.results[0].event_id, 9007199254740991);
const tagged = carrying.results[0].matches.find((each) => each.id === "tagged");
assert.deepEqual([tagged.data, tagged.tags], [{ title: "x" }, ["ts-tag"]]);
assert.equal(await client.unsubscribeMany({ tag: "ts-tag" }), 1);
assert.match(await client.setWebhook("ts", "nobody", "http://127.0.0.1:9/", { concurrency: 2, withData: true }), /^whsec_/);
assert.equal(await client.setWebhook("ts", "nobody", "http://127.0.0.1:9/new"), undefined);
assert.equal(await client.removeWebhook("ts"), true);
assert.equal((await client.explain({ ts: 1 }, 51)).truth, true);
assert.equal((await client.stats()).name, "http");
assert.equal(await client.unsubscribe(51), true);
assert.equal(await client.unsubscribe("int:1"), true);
console.log(JSON.stringify("all is well"));
