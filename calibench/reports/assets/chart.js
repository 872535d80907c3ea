// Charts: axes and marks in SVG.
function ticks(low, high, count = 7) {
  const raw = (high - low) / count || 1;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 2.5, 5, 10].map((s) => s * power).find((s) => s >= raw * 0.999);
  const found = [];
  for (let t = Math.ceil(low / step - 1e-9) * step; t <= high + step * 1e-9; t += step) found.push(Number(t.toPrecision(12)));
  return found;
}
function extent(values, zero = false) {
  const finite = values.filter(Number.isFinite);
  if (!finite.length) return [0, 1];
  const low = zero ? Math.min(0, ...finite) : Math.min(...finite);
  const high = Math.max(...finite);
  const pad = (high - low || Math.abs(high) || 1) * 0.05;
  return [zero && low === 0 ? 0 : low - pad, high + pad];
}
// Characters are as large in a wide chart as in a narrow one: its units are pixels.
const room = (id) => Math.max(260, document.getElementById(id).clientWidth || 420);
class Chart {
  constructor({ width = 420, height = 280, x, y, xTitle, yTitle, xNames }) {
    const longest = Math.max(0, ...(xNames ?? []).map((name) => name.length));
    const level = longest < 3; // short names stand level
    const [left, bottom, top, right] = [46, xNames && !level ? 30 + 4.2 * longest : 38, 8, 10];
    this.px = (v) => left + ((v - x[0]) / (x[1] - x[0])) * (width - left - right);
    this.py = (v) => height - bottom - ((v - y[0]) / (y[1] - y[0])) * (height - bottom - top);
    this.svg = el("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `${yTitle} against ${xTitle}` });
    const add = (...args) => this.svg.append(el(...args));
    for (const t of ticks(...y)) {
      add("line", { class: "grid", x1: left, x2: width - right, y1: this.py(t), y2: this.py(t) });
      add("text", { x: left - 5, y: this.py(t) + 4, "text-anchor": "end" }, String(t));
    }
    if (xNames && level) xNames.forEach((name, i) => add("text", { x: this.px(i), y: height - bottom + 15, "text-anchor": "middle" }, name));
    else if (xNames) xNames.forEach((name, i) => add("text", { transform: `translate(${this.px(i) + 4},${height - bottom + 12}) rotate(-40)`, "text-anchor": "end" }, name));
    else for (const t of ticks(...x)) add("text", { x: this.px(t), y: height - bottom + 15, "text-anchor": "middle" }, String(t));
    add("line", { class: "axis", x1: left, x2: width - right, y1: height - bottom, y2: height - bottom });
    add("text", { x: (left + width - right) / 2, y: height - 5, "text-anchor": "middle" }, xTitle);
    add("text", { transform: `translate(11,${(top + height - bottom) / 2}) rotate(-90)`, "text-anchor": "middle" }, yTitle);
  }
  line(xs, ys, attributes = {}) {
    const points = xs.map((x, i) => [number(x), number(ys[i])]).filter((p) => p.every(Number.isFinite));
    const path = points.map(([x, y]) => `${this.px(x).toFixed(1)},${this.py(y).toFixed(1)}`).join(" ");
    this.svg.append(el("polyline", { points: path, fill: "none", "stroke-width": 1.8, ...attributes }));
  }
  area(xs, low, high, attributes) {
    const there = xs.map((x, i) => [x, low[i], high[i]]).filter((p) => p.every((v) => v != null));
    const path = [...there.map(([x, l]) => [x, l]), ...there.reverse().map(([x, , h]) => [x, h])];
    this.svg.append(el("polygon", { points: path.map(([x, y]) => `${this.px(x).toFixed(1)},${this.py(y).toFixed(1)}`).join(" "), ...attributes }));
  }
  bar(x0, x1, height, attributes) {
    const top = this.py(height);
    this.svg.append(el("rect", { x: this.px(x0), width: Math.max(0, this.px(x1) - this.px(x0) - 0.5), y: top, height: Math.max(0, this.py(0) - top), ...attributes }));
  }
  dot(x, y, radius, attributes, title) {
    this.svg.append(el("circle", { cx: this.px(x), cy: this.py(y), r: radius, ...attributes }, title ? el("title", {}, title) : null));
  }
  mark(x, y, i, title) { this.svg.append(markAt(this.px(x), this.py(y), i, title)); }
  label(x, y, text) { this.svg.append(el("text", { x: this.px(x), y: this.py(y) }, text)); }
}
const stroke = (i) => ({ stroke: colorOf(i), "stroke-dasharray": dashOf(i) });
// Corners of the marks that follow the circle, where colours come again.
const CORNERS = [[], [[-4.5, -4.5], [4.5, -4.5], [4.5, 4.5], [-4.5, 4.5]], [[0, -6], [5.5, 4.5], [-5.5, 4.5]], [[0, -6.5], [6.5, 0], [0, 6.5], [-6.5, 0]]];
function markAt(x, y, i, title) {
  const corners = CORNERS[Math.floor(i / PALETTE.length) % CORNERS.length];
  const points = corners.map(([dx, dy]) => `${(x + dx).toFixed(1)},${(y + dy).toFixed(1)}`).join(" ");
  const shape = corners.length ? { points } : { cx: x, cy: y, r: 5 };
  return el(corners.length ? "polygon" : "circle", { ...shape, fill: colorOf(i), "fill-opacity": 0.85 }, title ? el("title", {}, title) : null);
}
function markLegend(names, shown) {
  return el("div", { class: "legend" }, ...names.map((name, i) => (shown.has(name)
    ? el("span", {}, el("svg", { viewBox: "-7 -7 14 14", class: "mark" }, markAt(0, 0, i)), name.replace(/(?<=.)Loss$/, "")) : null)));
}
function legend(names) {
  return el("div", { class: "legend" }, ...names.map((name, i) => {
    const mark = el("i");
    mark.style.borderTopColor = colorOf(i);
    mark.style.borderTopStyle = dashOf(i) ? "dashed" : "solid";
    return el("span", {}, mark, name);
  }));
}
const empty = (text) => el("p", { class: "quiet" }, text);
