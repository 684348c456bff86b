// The page: signing in, sections as tabs, and a look at the server every other second while the page is visible.

import { ask, hasToken, needsNone, setToken } from "./api.js";
import { $ } from "./elements.js";
import { startExplain } from "./explain.js";
import { showMailboxes, startMailboxes } from "./mailboxes.js";
import { showOverview } from "./overview.js";
import { showSubscriptions, startSubscriptions } from "./subscriptions.js";

const EVERY = 2000;
const SECTIONS = ["overview", "subscriptions", "explain", "mailboxes"];
const tabs = SECTIONS.map((name) => $(`tab-${name}`));
let timer = null, chosen = "overview", open = false;

function isIn() {
  return open || hasToken();
}

function notice(problem) {
  if (problem.status === 401) return signOut(problem.message);
  $("notice").textContent = problem.message;
  setTimeout(() => ($("notice").textContent = ""), 6000);
}

function connection(well, text) {
  $("connection").textContent = `${well ? "✓" : "✗"} ${text}`;
  $("connection").className = `pill ${well ? "good" : "bad"}`;
}

async function look() {
  clearTimeout(timer);
  if (!isIn()) return;
  if (!document.hidden) {
    try {
      const stats = await ask("GET", "/v1/stats");
      connection(true, "connected");
      $("server-name").textContent = stats.name;
      showOverview(stats);
      showMailboxes(stats);
    } catch (problem) {
      if (problem.status === 401 || problem.status === 403) return signOut(problem.message);
      connection(false, problem.status === 503 ? "the server is away" : "not reachable");
    }
  }
  timer = setTimeout(look, EVERY);
}

function choose(name, focus) {
  chosen = name;
  SECTIONS.forEach((each, place) => {
    const here = each === name;
    $(each).hidden = !here || !isIn();
    tabs[place].setAttribute("aria-selected", String(here));
    tabs[place].tabIndex = here ? 0 : -1;
    if (here && focus) tabs[place].focus();
  });
  if (isIn() && name === "subscriptions") showSubscriptions();
}

function signOut(message = "") {
  open = false;
  setToken(null);
  clearTimeout(timer);
  $("sign-in").hidden = false;
  $("sign-out").hidden = true;
  $("token-error").textContent = message;
  connection(false, "not signed in");
  choose(chosen, false);
  $("token").focus();
}

function signedIn(focus = false) {
  $("sign-in").hidden = true;
  $("sign-out").hidden = open;
  $("token").value = "";
  choose(chosen, focus);
  look();
}

tabs.forEach((tab, place) => {
  tab.addEventListener("click", () => choose(SECTIONS[place], true));
  tab.addEventListener("keydown", (event) => {
    const to = { ArrowRight: place + 1, ArrowLeft: place - 1, Home: 0, End: SECTIONS.length - 1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    choose(SECTIONS[(to + SECTIONS.length) % SECTIONS.length], true);
  });
});
$("token-form").addEventListener("submit", async (event) => {
  event.preventDefault();
  setToken($("token").value.trim());
  try {
    await ask("GET", "/v1/stats");
    signedIn(true); // the field that had the focus is hidden
  } catch (problem) {
    if (problem.status === 503) signedIn(true);
    else signOut(problem.message);
  }
});
$("sign-out").addEventListener("click", () => signOut());
document.addEventListener("visibilitychange", look);
startSubscriptions(notice);
startExplain();
startMailboxes(notice);
open = await needsNone();
if (isIn()) signedIn();
else signOut();
