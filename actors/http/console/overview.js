// The server as a whole: rates, latencies, processes, hot subscriptions.

import { $, bar, bytes, count, duration, el, short, svg, table } from "./elements.js";
import { Plot } from "./plot.js";

const rates = new Plot($("rate-plot"), { names: ["events"], written: count, least: 10 });
const latencies = new Plot($("latency-plot"), { names: ["median", "99 %"], written: duration, least: 0.001 });
const MOST_CELLS = 12;
let before = null;

export function showOverview(stats) {
  const now = Date.now();
  const events = sum(stats.coordinators, "events");
  const rate = before && now > before.now && events >= before.events ? (1000 * (events - before.events)) / (now - before.now) : NaN;
  before = { now, events };
  rates.add(now, rate);
  $("rate-now").textContent = Number.isFinite(rate) ? `${count(rate)} /s` : "";
  const latency = stats.coordinators.map((each) => each.latencies).find(Boolean) ?? {};
  const [median, high] = [latency.p50, latency.p99];
  latencies.add(now, median ?? NaN, high ?? NaN);
  $("latency-now").textContent = `median ${duration(median)}, 99 % ${duration(high)} (dashed)`;
  const mail = stats.mailboxes ?? {};
  $("tiles").replaceChildren(
    tile(count(stats.registry.subscriptions), "subscriptions"),
    tile(count(stats.registry.subscribers), "subscribers"),
    tile(count(events), "events published"),
    tile(count(sum(stats.coordinators, "matches")), "matches"),
    tile(count(mail.waiting), "deliveries waiting"),
    tile(count(mail.dead), "dead letters"),
  );
  $("processes").replaceChildren(processes(stats));
  const hot = stats.ranking?.hot ?? [];
  $("hot").replaceChildren(
    table(hot, [["Id", (row) => el("code", {}, short(row.id))], ["Subscriber", (row) => short(row.subscriber ?? "–")], ["Matches", (row) => count(row.matches), true]], "Nothing has matched yet."),
  );
}

function processes(stats) {
  const whole = sum(stats.shards, "subscriptions");
  const boxes = [
    box("registry", stats.registry.pid ? "serving" : "away", stats.registry, [["rules", count(stats.registry.rules)], ["version", count(stats.registry.version)], ["on disk", bytes(stats.registry.bytes)]]),
    ...stats.coordinators.map((each) => box(`coordinator ${each.number}`, each.pid ? "serving" : "away", each, [["batches", count(each.batches)], ["in work", count(each.in_flight)], ["refused", count(each.refused)]])),
    ...stats.shards.map((each) => {
      const part = whole ? `${Math.round((100 * (each.subscriptions ?? 0)) / whole)} % of all` : "";
      const node = box(`shard ${each.number}`, each.state, each, [["subscriptions", `${count(each.subscriptions)} ${part && `(${part})`}`], ["clauses", count(each.clauses)], ["index", bytes(each.index_bytes)]]);
      node.append(bar(each.subscriptions ?? 0, whole, `${count(each.subscriptions)} of ${count(whole)} subscriptions`));
      const cells = segments(each);
      if (cells) node.append(cells);
      return node;
    }),
  ];
  return el("div", { class: "processes" }, ...boxes);
}

function box(name, state, told, facts) {
  const well = state === "serving";
  const mark = el("span", { class: well ? "good" : "bad" }, `${well ? "✓" : "✗"} ${state}`);
  const rows = [...facts, ["memory", bytes(told.memory_bytes)]].flatMap(([term, value]) => [el("dt", {}, term), el("dd", {}, value)]);
  return el("div", { class: well ? "process" : "process away" }, el("h3", {}, name, mark), el("dl", {}, ...rows));
}

/** The partitions of a shard's index as a picture: its segments and, with a dashed edge, its tail. */
function segments(shard) {
  const blocks = (shard.index?.blocks ?? []).filter((each) => each.clauses > 0).slice(0, MOST_CELLS);
  const listed = blocks.map((each) => ({ name: each.engine ?? "segment", clauses: each.clauses }));
  if (shard.index?.tail > 0) listed.push({ name: "tail", clauses: shard.index.tail, tail: true });
  if (!listed.length) return null;
  const whole = sum(listed, "clauses");
  const least = 3; // percent, so that the smallest can be seen
  let at = 0;
  const cells = listed.flatMap((each) => {
    const width = least + ((100 - least * listed.length) * each.clauses) / whole;
    const x = at;
    at += width;
    return [svg("rect", { class: each.tail && "tail", x: `${x}%`, y: 1, width: `${width - 0.5}%`, height: 20, rx: 3 }), width > 20 ? svg("text", { x: `${x}%`, dx: 6, y: 15 }, each.name) : null];
  });
  const told = listed.map((each) => `${each.name} with ${count(each.clauses)} clauses`).join(", ");
  return svg("svg", { class: "cells", role: "img", "aria-label": `segments: ${told}` }, ...cells.filter(Boolean));
}

function tile(value, name) {
  return el("div", { class: "tile" }, el("b", {}, value), el("span", {}, name));
}

function sum(rows, name) {
  return rows.reduce((total, row) => total + (row[name] ?? 0), 0);
}
