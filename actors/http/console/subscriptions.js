// Subscriptions: search, add with live errors under the caret, back-test, remove.

import { ask, idPart } from "./api.js";
import { $, count, el, short, shortJson, table } from "./elements.js";

const WAIT = 250;
let timer = null, asked = 0, listing = 0, after = 0, shown = [], report = () => {};

export function startSubscriptions(notice) {
  report = notice;
  $("add-expression").addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(check, WAIT);
    // What was said of another expression.
    $("backtest-result").replaceChildren();
    $("add-result").textContent = "";
  });
  $("add-form").addEventListener("submit", add);
  $("backtest").addEventListener("click", backtest);
  $("search-form").addEventListener("submit", (event) => {
    event.preventDefault();
    showSubscriptions();
  });
  $("more").addEventListener("click", more);
}

/** Whether the draft can be used; if not, the place and what was expected there. */
async function check() {
  const expression = $("add-expression").value, mine = ++asked, state = $("expression-state");
  if (!expression.trim()) return say(state, "", false);
  try {
    await ask("POST", "/v1/expressions/check", { expression });
    if (mine === asked) say(state, "✓ can be used", false);
  } catch (problem) {
    if (mine === asked) say(state, `✗ ${problem.message}`, true);
  }
}

function say(state, text, wrong) {
  state.textContent = text;
  state.classList.toggle("wrong", wrong);
  $("add-expression").setAttribute("aria-invalid", String(wrong));
}

async function add(event) {
  event.preventDefault();
  const body = { subscriber: $("add-subscriber").value, expression: $("add-expression").value };
  const id = $("add-id").value.trim(), data = $("add-data").value.trim();
  const tags = $("add-tags").value.split(",").map((each) => each.trim()).filter(Boolean);
  if (id) body.id = id;
  if (tags.length) body.tags = tags;
  let text = JSON.stringify(body);
  try {
    if (data) JSON.parse(data);
    if (data) text = `${text.slice(0, -1)},"data":${data}}`; // as it was written: JavaScript would round large numbers
    sayOfData("");
  } catch (error) {
    return sayOfData(`✗ Data is not JSON: ${error.message}`);
  }
  try {
    const made = await ask("POST", "/v1/subscriptions", text);
    $("add-result").textContent = `added as ${short(made.id)}`;
    await showSubscriptions();
  } catch (problem) {
    $("add-result").textContent = "";
    say($("expression-state"), `✗ ${problem.message}`, true);
  }
}

function sayOfData(text) {
  $("data-state").textContent = text;
  $("add-data").setAttribute("aria-invalid", String(Boolean(text)));
}

async function backtest() {
  const result = $("backtest-result");
  try {
    const found = await ask("POST", "/v1/backtest", { expression: $("add-expression").value });
    const said = found.events
      ? `It would have matched ${count(found.matches)} of the last ${count(found.events)} events.`
      : "No events have come by HTTP yet; there is nothing to test it on.";
    result.replaceChildren(el("p", {}, said), ...found.samples.slice(0, 5).map((sample) => el("pre", { class: "code" }, short(sample, 2000))));
  } catch (problem) {
    result.replaceChildren();
    say($("expression-state"), `✗ ${problem.message}`, true);
  }
}

export async function showSubscriptions() {
  listing += 1; // what an earlier search is still waiting for is not shown
  [after, shown] = [0, []];
  await more();
}

async function more() {
  const mine = listing, query = new URLSearchParams({ after, limit: 50 });
  const search = $("search").value.trim();
  if (search.startsWith("tag:")) query.set("tag", search.slice(4).trim());
  else if (search) query.set("search", search);
  try {
    const page = await ask("GET", `/v1/subscriptions?${query}`);
    if (mine !== listing) return;
    shown.push(...page.items);
    after = page.after;
  } catch (problem) {
    return report(problem);
  }
  $("more").hidden = after === null;
  draw();
}

function draw() {
  $("subscription-list").replaceChildren(
    table(
      shown,
      [
        ["Id", (row) => el("code", {}, short(row.id))],
        ["Subscriber", (row) => short(row.subscriber)],
        ["Expression", (row) => el("code", {}, short(row.expression, 400))],
        ["Tags", (row) => short(row.tags.join(", "))],
        ["Data", (row) => (row.data === null ? "" : el("code", {}, shortJson(row.data)))],
        ["Shard", (row) => row.shard, true],
        ["", removal],
      ],
      after === null ? "There is none." : "None found so far.",
    ),
  );
}

/** The first press asks, the second removes. */
function removal(row) {
  const button = el("button", { class: "plain danger", "aria-label": `Remove ${short(row.id)}` }, "Remove");
  const show = (sure) => {
    button.textContent = sure ? "Really?" : "Remove";
    button.setAttribute("aria-label", sure ? `Really remove ${short(row.id)}?` : `Remove ${short(row.id)}`);
    button.onclick = () => (sure ? remove(row) : show(true));
  };
  show(false);
  button.addEventListener("blur", () => show(false));
  return button;
}

async function remove(row) {
  try {
    await ask("DELETE", `/v1/subscriptions/${encodeURIComponent(idPart(row.id))}`);
    const place = shown.indexOf(row);
    shown = shown.filter((each) => each !== row);
    draw();
    const buttons = document.querySelectorAll("#subscription-list .danger"); // the focus stays near where it was
    (buttons[Math.min(place, buttons.length - 1)] ?? $("search")).focus();
  } catch (problem) {
    report(problem);
  }
}
