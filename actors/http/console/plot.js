// A plot of the last minutes: one or two curves, a few lines with their values, and the same in words for those who cannot see it.

import { svg } from "./elements.js";

const USUAL_WIDTH = 520, HEIGHT = 150, LEFT = 56, BOTTOM = 18, TOP = 8;

export class Plot {
  constructor(parent, { names, written, least, most = 150 }) {
    this.parent = parent;
    this.names = names;
    this.written = written;
    this.least = least;
    this.most = most;
    this.points = [];
  }

  add(time, ...values) {
    this.points.push({ time, values });
    if (this.points.length > this.most) this.points.shift();
    this.draw();
  }

  /** In pixels of the page, so that texts keep their size however narrow it is. */
  draw() {
    const width = this.parent.clientWidth || USUAL_WIDTH;
    const highest = nice(Math.max(...this.points.flatMap((point) => point.values.filter(Number.isFinite)), this.least));
    const last = this.points.at(-1).time, first = Math.min(this.points[0].time, last - 30_000);
    const x = (time) => LEFT + ((width - LEFT - 4) * (time - first)) / (last - first);
    const y = (value) => HEIGHT - BOTTOM - ((HEIGHT - BOTTOM - TOP) * value) / highest;
    const parts = [];
    for (const part of [0, 0.5, 1]) {
      const at = y(part * highest);
      parts.push(svg("line", { class: "grid", x1: LEFT, x2: width - 4, y1: at, y2: at }));
      parts.push(svg("text", { x: LEFT - 6, y: at + 4, "text-anchor": "end" }, this.written(part * highest)));
    }
    parts.push(svg("text", { x: LEFT, y: HEIGHT - 3 }, `${Math.round((last - first) / 1000)} s ago`));
    parts.push(svg("text", { x: width - 4, y: HEIGHT - 3, "text-anchor": "end" }, "now"));
    this.names.forEach((name, which) => {
      const shown = this.points.filter((point) => Number.isFinite(point.values[which]));
      if (!shown.length) return;
      const path = shown.map((point, place) => `${place ? "L" : "M"}${x(point.time).toFixed(1)} ${y(point.values[which]).toFixed(1)}`).join("");
      if (!which) parts.push(svg("path", { class: "area", d: `${path}L${x(shown.at(-1).time).toFixed(1)} ${y(0)}L${x(shown[0].time).toFixed(1)} ${y(0)}Z` }));
      parts.push(svg("path", { class: which ? "curve second" : "curve", d: path }));
    });
    const now = this.points.at(-1).values.map((value, which) => `${this.names[which]} ${this.written(value)}`).join(", ");
    this.parent.replaceChildren(svg("svg", { viewBox: `0 0 ${width} ${HEIGHT}`, role: "img", "aria-label": `now: ${now}; highest line ${this.written(highest)}` }, ...parts));
  }
}

/** The next of 1, 2, 5, 10, 20, … */
function nice(value) {
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].find((step) => step * power >= value) * power;
}
