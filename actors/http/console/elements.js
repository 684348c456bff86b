// Elements from data. What comes from the server is only ever text: there is no innerHTML in this console.

/** Tables with more columns become lists in a narrow window. */
const MOST_NARROW = 4;
const SVG = "http://www.w3.org/2000/svg";

export function $(id) {
  return document.getElementById(id);
}

function filled(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined).map((child) => (child instanceof Node ? child : String(child))));
  return node;
}

export function el(name, attributes, ...children) {
  return filled(document.createElement(name), attributes, children);
}

export function svg(name, attributes, ...children) {
  return filled(document.createElementNS(SVG, name), attributes, children);
}

/** What others have named or written, short enough for a table. Characters that would change how the rest is shown are written as escapes. */
export function short(value, most = 120) {
  const text = String(value), cut = text.length > most ? `${text.slice(0, most)}… (${count(text.length)} characters)` : text;
  return cut.replace(/[\p{Cc}\p{Zl}\p{Zp}\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/gu, (each) => `\\u${each.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

export function shortJson(value, most) {
  return short(JSON.stringify(value, (name, part) => (typeof part === "bigint" ? `${part}` : part)), most);
}

export function count(value) {
  return Number.isFinite(value) ? value.toLocaleString("en", { maximumFractionDigits: Math.abs(value) < 10 ? 1 : 0 }) : "–";
}

export function bytes(value) {
  if (typeof value !== "number") return "–";
  const units = ["B", "kB", "MB", "GB", "TB"];
  let unit = 0;
  while (value >= 1000 && unit < units.length - 1) [value, unit] = [value / 1000, unit + 1];
  return `${value.toFixed(value < 10 && unit ? 1 : 0)} ${units[unit]}`;
}

export function duration(seconds) {
  if (!Number.isFinite(seconds)) return "–";
  if (!seconds) return "0";
  if (seconds < 0.001) return `${(seconds * 1e6).toFixed(0)} µs`;
  if (seconds < 1) return `${(seconds * 1000).toFixed(seconds < 0.01 ? 1 : 0)} ms`;
  return seconds < 120 ? `${seconds.toFixed(seconds < 10 ? 1 : 0)} s` : `${(seconds / 60).toFixed(0)} min`;
}

/** A bar that shows a part of a whole; the text beside it says the same. */
export function bar(part, whole, label) {
  const width = whole > 0 ? Math.max(part > 0 ? 1 : 0, (100 * part) / whole) : 0;
  return svg("svg", { class: "bar", viewBox: "0 0 100 10", preserveAspectRatio: "none", role: "img", "aria-label": label }, svg("rect", { width, height: 10 }));
}

/** Columns: [heading, cell of a row, whether it is a number]. */
export function table(rows, columns, empty) {
  if (!rows.length) return el("p", { class: "empty" }, empty);
  const heads = columns.map(([heading, , number]) => el("th", { class: number && "number", scope: "col", role: "columnheader" }, heading));
  const lines = rows.map((row) => el("tr", { role: "row" }, ...columns.map(([heading, cell, number]) => el("td", { class: number && "number", role: "cell", "data-heading": heading }, cell(row)))));
  // The roles are said because a narrow window draws the rows of wide tables as lists, which would otherwise be no tables to a screen reader.
  const parts = [el("thead", { role: "rowgroup" }, el("tr", { role: "row" }, ...heads)), el("tbody", { role: "rowgroup" }, ...lines)];
  return el("div", { class: "scroll" }, el("table", { role: "table", class: columns.length > MOST_NARROW && "wide" }, ...parts));
}
