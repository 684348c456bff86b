// Mailboxes by priority, the fullest ones, and dead letters that can be delivered again.

import { ask } from "./api.js";
import { $, bar, count, duration, el, short, shortJson, table } from "./elements.js";

let report = () => {};

export function startMailboxes(notice) {
  report = notice;
  $("dead-form").addEventListener("submit", (event) => {
    event.preventDefault();
    showDead($("dead-subscriber").value);
  });
}

export function showMailboxes(stats) {
  const mail = stats.mailboxes;
  if (!mail) return;
  const most = Math.max(...mail.levels.map((level) => level.waiting), 1);
  const levels = [...mail.levels].reverse().map((level) => {
    const rate = mail.on_time[level.level];
    const told = rate === null || rate === undefined ? "nothing due yet" : `${(100 * rate).toFixed(1)} % on time`;
    const late = level.overdue ? el("span", { class: "bad" }, ` ⚠ ${count(level.overdue)} overdue`) : null;
    return el("div", { class: "level" }, el("span", {}, level.level), bar(level.waiting, most, `${count(level.waiting)} waiting`), el("span", { class: "number" }, count(level.waiting)), el("span", { class: "quiet" }, told, late));
  });
  $("levels").replaceChildren(...levels);
  $("fullest").replaceChildren(
    table(
      mail.fullest,
      [
        ["Subscriber", (row) => short(row.subscriber)],
        ["Waiting", (row) => count(row.waiting), true],
        ["In flight", (row) => count(row.in_flight), true],
        ["Acknowledged", (row) => count(row.acked), true],
        ["Oldest waits", (row) => duration(row.oldest_wait), true],
        ["Dead", (row) => (row.dead ? el("button", { class: "plain", "aria-label": `Dead letters of ${short(row.subscriber)}`, onclick: () => showDead(row.subscriber) }, count(row.dead)) : "0"), true],
      ],
      "All mailboxes are empty.",
    ),
  );
}

async function showDead(subscriber) {
  $("dead-subscriber").value = subscriber;
  const path = `/v1/subscribers/${encodeURIComponent(subscriber)}/dead-letters`;
  let items;
  try {
    items = (await ask("GET", `${path}?limit=100`)).items;
  } catch (problem) {
    return report(problem);
  }
  const again = async (sequences) => {
    try {
      await ask("POST", `${path}/redrive`, sequences ? { sequences } : {});
      await showDead(subscriber);
    } catch (problem) {
      report(problem);
    }
  };
  const rows = table(
    items,
    [
      ["Sequence", (row) => row.sequence],
      ["Subscription", (row) => el("code", {}, short(row.subscription_id))],
      ["Reason", (row) => short(row.reason, 500)],
      ["Attempts", (row) => row.attempts, true],
      ["Event", (row) => el("code", {}, shortJson(row.event, 300))],
      ["", (row) => el("button", { class: "plain", "aria-label": `Redrive ${row.sequence}`, onclick: () => again([row.sequence]) }, "Redrive")],
    ],
    `${short(subscriber)} has no dead letters.`,
  );
  $("dead-list").replaceChildren(rows, items.length ? el("div", { class: "actions" }, el("button", { onclick: () => again(null) }, "Redrive all")) : "");
}
