// What matches an event, drawn as the pipeline that found it: attributes in order, the method of each step, what is left after it.

import { ask, idPart } from "./api.js";
import { $, bar, count, duration, el, short, table } from "./elements.js";

const MARKS = { true: ["✓", "good", "true"], false: ["✗", "bad", "false"], null: ["?", "warn", "unknown"] };
const MOST_PIPELINES = 6;

export function startExplain() {
  $("explain-form").addEventListener("submit", async (submitted) => {
    submitted.preventDefault();
    const state = $("explain-state");
    state.className = "";
    const event = $("event").value; // sent as it was written: JavaScript would round large numbers
    try {
      JSON.parse(event);
    } catch (error) {
      state.className = "bad";
      state.textContent = `✗ ${error.message}`;
      return;
    }
    try {
      const found = await ask("POST", "/v1/explain", `{"event": ${event}}`);
      state.textContent = `${count(found.matches)} ${found.matches === 1 ? "match" : "matches"}, priority ${found.priority}`;
      $("explanation").replaceChildren(pipelines(found.plan), matched(found, event));
    } catch (problem) {
      state.className = "bad";
      state.textContent = `✗ ${problem.message}`;
      $("explanation").replaceChildren();
    }
  });
}

function matched(found, event) {
  const why = el("div", { "aria-live": "polite" });
  const rows = table(
    found.matched,
    [
      ["Subscription", (row) => el("code", {}, short(row.id))],
      ["Subscriber", (row) => short(row.subscriber)],
      ["", (row) => el("button", { class: "plain", "aria-label": `Why does ${short(row.id)} match?`, onclick: () => explainOne(row.id, event, why) }, "Why?")],
    ],
    "No subscription matches this event.",
  );
  const id = el("input", { id: "why-id", spellcheck: "false", placeholder: "Subscription id" });
  const form = el("form", { class: "search" }, el("h2", {}, "Matches"), el("label", { for: "why-id", class: "unseen" }, "Subscription id"), id, el("button", {}, "Why, or why not?"));
  form.addEventListener("submit", (submitted) => {
    submitted.preventDefault();
    explainOne(id.value, event, why);
  });
  return el("div", { class: "card" }, form, why, el("div", { class: "tall" }, rows));
}

async function explainOne(id, event, where) {
  try {
    const found = await ask("POST", "/v1/explain", `{"event": ${event}, "id": ${JSON.stringify(idPart(id))}}`);
    where.replaceChildren(el("h3", {}, `${short(id)} ${found.truth === true ? "matches" : "does not match"}`), el("ul", { class: "tree" }, branch(found)));
  } catch (problem) {
    where.replaceChildren(el("p", { class: "bad" }, `✗ ${problem.message}`));
  }
}

function branch(part) {
  const [mark, colour, word] = MARKS[part.truth];
  const line = [el("span", { class: `mark ${colour}`, title: word, role: "img", "aria-label": word }, mark), part.expression, part.reason ? el("span", { class: "quiet" }, `  ${part.reason}`) : null];
  return el("li", {}, ...line, part.parts.length ? el("ul", {}, ...part.parts.map(branch)) : null);
}

function pipelines(plan) {
  const shards = Object.entries(plan.shards);
  const visited = `${shards.length} of ${plan.of} ${plan.of === 1 ? "shard" : "shards"} visited`;
  return el("div", { class: "card" }, el("h2", {}, "How it was found"), el("p", { class: "hint" }, `${visited}. Each line is a step: the attribute, the method, and the clauses that are left after it.`), ...shards.flatMap(([number, found]) => shard(number, found)));
}

function shard(number, found) {
  const parts = [...found.segments, ...found.tails];
  const head = el("h3", {}, `Shard ${number}: ${count(found.matches)} ${found.matches === 1 ? "match" : "matches"} in ${duration(found.seconds)}`);
  return [head, ...parts.map(segment)];
}

function segment(part) {
  const { partitions } = part;
  const skipped = partitions.skipped ? `, ${count(partitions.skipped)} of ${count(partitions.visited + partitions.skipped)} ${partitions.of} passed over` : "";
  const shown = [...part.pipelines].sort((one, other) => other.clauses - one.clauses).slice(0, MOST_PIPELINES);
  const lines = shown.flatMap((pipeline) => [
    step(pipeline.of || "all clauses", "to begin with", pipeline.clauses, part.clauses),
    ...pipeline.steps.map((each) => step(each.attribute || "–", each.method, each.actual, part.clauses)),
  ]);
  const more = part.pipelines.length - shown.length;
  return el("div", { class: "part" }, el("h3", {}, `${part.engine} `, el("span", { class: "quiet" }, `${count(part.clauses)} clauses${skipped}, ${count(part.matches)} hold, ${duration(part.seconds)}`)), el("ol", { class: "steps" }, ...lines), more > 0 ? el("p", { class: "hint" }, `and ${more} smaller pipelines`) : null);
}

function step(attribute, method, left, whole) {
  return el("li", {}, el("span", { class: "mono" }, attribute), el("span", { class: "quiet" }, method), bar(left, whole, `${count(left)} of ${count(whole)} clauses left`), el("span", { class: "count" }, count(left)));
}
