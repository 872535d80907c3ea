// What is drawn of the chosen rows, each view from the data alone. Of a row, what is drawn is read when it is chosen first.
const PICTURES = document.querySelectorAll("script.pictures");
function withPictures(i) {
  if (!DATA.rows[i].curves) {
    const { curves, of_logits } = JSON.parse(PICTURES[i].textContent);
    Object.assign(DATA.rows[i], { curves, ...of_logits });
  }
  return DATA.rows[i];
}
const chosenRows = () => [...state.chosen].sort((a, b) => a - b).map(withPictures);
const placeOf = (row) => `${row.benchmark} / ${row.backbone}`;
// A row among others: its place is named where theirs differ.
const nameOf = (row, rows) => (new Set(rows.map(placeOf)).size > 1 ? `${row.label} · ${placeOf(row)}` : row.label);
const view = { roc: "", shift: "error", curves: "val/nll", x: "error", y: "ece", after: "", pairs: "nll", heat: "ece", place: "" };
const seedsOf = (n) => `${n} ${n === 1 ? "seed" : "seeds"}`;

function drawReliability(rows) {
  const known = rows.filter((r) => r.reliability);
  const fitted = [...new Set(known.flatMap((r) => Object.keys(r.reliability)))].filter((c) => c !== "raw");
  if (!["raw", ...fitted].includes(view.after)) view.after = fitted[0] ?? "raw";
  const options = [...fitted.map((c) => [c, c]), ["raw", "nothing"]];
  fill("reliability-controls", fitted.length ? select("compare raw with", options, view.after, (v) => { view.after = v; drawReliability(rows); }) : null);
  if (!known.length) return fill("reliability", empty("no saved logits for these rows"));
  fill("reliability", ...known.map((r) => el("figure", { class: "beside" }, el("figcaption", {}, nameOf(r, rows)),
    el("div", {}, ...[...new Set(["raw", view.after])].filter((c) => r.reliability[c]).map((c) => reliabilityPanel(r.reliability[c], c))))));
  const { count } = known[0].reliability.raw;
  const total = count.reduce((a, b) => a + b, 0);
  document.getElementById("reliability").append(empty(`${count.length} bins, ${total} predictions of all seeds; bars: fraction of predictions; band: 95 % interval of the accuracy; grey area: range of 95 % of calibrated models`));
}
function reliabilityPanel(r, calibrator) {
  const n = r.count.length;
  const total = r.count.reduce((a, b) => a + b, 0);
  const chart = new Chart({ width: 220, height: 215, x: [0, 1], y: [0, 1], xTitle: r.axes[0], yTitle: r.axes[1] });
  r.count.forEach((c, i) => chart.bar(i / n, (i + 1) / n, c / total, { class: "bar" }));
  chart.line([0, 1], [0, 1], { class: "axis", "stroke-dasharray": "4 3" });
  const seen = r.confidence.map((v, i) => i).filter((i) => r.confidence[i] != null);
  const pick = (values) => seen.map((i) => values[i]);
  chart.area(pick(r.confidence), ...r.calibrated.map(pick), { class: "calibrated" });
  chart.area(pick(r.confidence), pick(r.low), pick(r.high), { fill: colorOf(0), opacity: 0.2 });
  chart.line(pick(r.confidence), pick(r.accuracy), { stroke: colorOf(0) });
  seen.forEach((i) => chart.dot(r.confidence[i], r.accuracy[i], 1.5 + 4 * Math.sqrt(r.count[i] / total), r.count[i] < 5 ? { fill: "none", stroke: colorOf(0) } : { fill: colorOf(0) }, `${r.count[i]} examples, ${r.axes[1]} ${(100 * r.accuracy[i]).toFixed(1)}\u00a0%`));
  return el("div", {}, chart.svg, el("p", { class: "quiet" }, `${calibrator === "raw" ? "raw" : `after ${short(calibrator)}`}: ${r.ece}`));
}
const short = (calibrator) => {
  const capitals = (calibrator.match(/\([^)]*\)|[A-Z]|#\d+/g) ?? []).join("");
  return capitals.length > 1 ? capitals : calibrator;
};
function drawRisk(rows) {
  const known = rows.filter((r) => r.risk);
  if (!known.length) return fill("risk", empty("no saved logits for these rows"));
  const high = extent(known.flatMap((r) => r.risk.y.map((v) => 100 * v)), true);
  const chart = new Chart({ width: room("risk"), x: [0, 1], y: high, xTitle: "coverage", yTitle: "error % of covered examples" });
  known.forEach((r, i) => chart.line(r.risk.x, r.risk.y.map((v) => 100 * v), stroke(i)));
  fill("risk", chart.svg, legend(known.map((r) => `${nameOf(r, rows)} (AURC ${(100 * r.risk.area).toFixed(2)}\u00a0%)`)));
}
function drawRoc(rows) {
  const sets = [...new Set(rows.flatMap((r) => Object.keys(r.roc ?? {})))];
  document.getElementById("roc-section").hidden = !sets.length;
  if (!sets.length) return;
  if (!sets.includes(view.roc)) view.roc = sets[0];
  fill("roc-controls", select("set", sets.map((s) => [s, s]), view.roc, (v) => { view.roc = v; drawRoc(rows); }));
  const known = rows.filter((r) => r.roc?.[view.roc]);
  const chart = new Chart({ width: room("roc"), x: [0, 1], y: [0, 1], xTitle: "false alarms", yTitle: "detected" });
  chart.line([0, 1], [0, 1], { class: "axis", "stroke-dasharray": "4 3" });
  known.forEach((r, i) => chart.line(r.roc[view.roc].x, r.roc[view.roc].y, stroke(i)));
  fill("roc", chart.svg, legend(known.map((r) => `${nameOf(r, rows)} (AUROC ${(100 * r.roc[view.roc].area).toFixed(1)}\u00a0%)`)));
}
function drawShift(rows) {
  const metrics = [...new Set(rows.flatMap((r) => Object.keys(r.shift)))];
  document.getElementById("shift-section").hidden = !metrics.length;
  if (!metrics.length) return;
  if (!metrics.includes(view.shift)) view.shift = metrics[0];
  const metric = METRIC.get(view.shift);
  fill("shift-controls", select("metric", metrics.map((m) => [m, titleOf(METRIC.get(m))]), view.shift, (v) => { view.shift = v; drawShift(rows); }));
  const known = rows.filter((r) => r.shift[view.shift]);
  const names = [...new Set(known.flatMap((r) => Object.keys(r.shift[view.shift])))];
  const scale = metric.percent ? 100 : 1;
  const values = known.map((r) => names.map((n) => scale * number(r.shift[view.shift][n])));
  const chart = new Chart({ width: room("shift"), x: [-0.2, names.length - 0.8], y: extent(values.flat(), true), xTitle: "", yTitle: titleOf(metric), xNames: names });
  known.forEach((r, i) => chart.line(names.map((_, k) => k), values[i], stroke(i)));
  fill("shift", chart.svg, legend(known.map((r) => nameOf(r, rows))));
}
function drawCurves(rows) {
  const names = [...new Set(rows.flatMap((r) => Object.keys(r.curves)))];
  document.getElementById("curves-section").hidden = !names.length; // imported predictions have none
  if (!names.length) return;
  if (!names.includes(view.curves)) view.curves = names[0];
  fill("curves-controls", select("logged", names.map((n) => [n, n]), view.curves, (v) => { view.curves = v; drawCurves(rows); }));
  const known = rows.filter((r) => r.curves[view.curves]);
  const runs = known.map((r) => r.curves[view.curves]);
  const chart = new Chart({ width: room("curves"), x: extent(runs.flat().flatMap((c) => c[0])), y: extent(runs.flat().flatMap((c) => c[1].map(number))), xTitle: "epoch", yTitle: view.curves });
  runs.forEach((seeds, i) => seeds.forEach((c) => chart.line(c[0], c[1], { ...stroke(i), "stroke-width": 1.2 })));
  fill("curves", chart.svg, legend(known.map((r) => `${nameOf(r, rows)} (${seedsOf(r.curves[view.curves].length)})`)));
}
const MANY = 20; // classes up to which each has its name
const clipped = (name) => (name.length > 11 ? `${name.slice(0, 10)}…` : name);
function drawClasses(rows) {
  const known = rows.filter((r) => r.classes);
  const high = extent(known.flatMap((r) => r.classes.errors.map((e) => 100 * number(e))), true); // one scale for all
  fill("classes", ...(known.length ? known.map((r) => classPanel(r, nameOf(r, rows), high)) : [empty("no saved logits for these rows")]));
}
function classPanel(row, name, high) {
  const { names, counts, errors, groups } = row.classes;
  const order = names.map((_, i) => i).sort((a, b) => (counts[b] ?? 0) - (counts[a] ?? 0));
  const named = names.length <= MANY;
  const chart = new Chart({
    width: 260, height: named ? 240 : 210, x: [-0.5, names.length - 0.5], y: high,
    xTitle: `classes${counts.length ? ", most training examples first" : ""}`, yTitle: "error %", xNames: named ? order.map((k) => clipped(names[k])) : [],
  });
  order.forEach((k, place) => {
    if (errors[k] == null) return;
    chart.bar(place - 0.4, place + 0.4, 100 * errors[k], { fill: colorOf(0) });
    chart.svg.lastChild.append(el("title", {}, `${names[k]}: ${(100 * errors[k]).toFixed(1)}\u00a0%, ${counts[k] ?? "?"} training examples`));
  });
  const text = Object.entries(groups).filter(([, v]) => v != null).map(([k, v]) => `${k} ${(100 * v).toFixed(1)}\u00a0%`).join(", ");
  return el("figure", {}, el("figcaption", {}, name, el("br"), el("span", { class: "quiet" }, text)), chart.svg);
}
function drawConfusion(rows) {
  const known = rows.filter((r) => r.classes?.confusion);
  fill("confusion", ...(known.length ? known.map((r) => confusionPanel(r, nameOf(r, rows))) : [empty("no confusion matrix for these rows (shown for up to 20 classes)")]));
}
function confusionPanel(row, name) {
  const { names, confusion } = row.classes;
  const longest = Math.max(...names.map((n) => clipped(n).length));
  const [k, left, size] = [names.length, 16 + 5 * longest, 236 - 5 * longest];
  const [cell, level] = [size / k, longest < 3];
  const below = size + (level ? 20 : 14 + 5 * longest); // the names of the columns
  const svg = el("svg", { viewBox: `0 0 ${left + size + 8} ${below + 50}`, role: "img", "aria-label": `confusion matrix of ${row.label}` });
  const add = (...args) => svg.append(el(...args));
  const small = { style: "font-size:9px" };
  confusion.forEach((line, i) => {
    add("text", { x: left - 4, y: 6 + (i + 0.5) * cell + 3, "text-anchor": "end", ...small }, clipped(names[i]));
    const column = left + (i + 0.5) * cell;
    add("text", level ? { x: column, y: size + 16, "text-anchor": "middle", ...small } : { transform: `translate(${column + 3},${size + 14}) rotate(-60)`, "text-anchor": "end", ...small }, clipped(names[i]));
    line.forEach((part, j) => {
      add("rect", { x: left + j * cell, y: 6 + i * cell, width: cell - 0.5, height: cell - 0.5, fill: part == null ? "none" : "var(--accent)", "fill-opacity": part == null ? 0 : 0.04 + 0.96 * part },
        el("title", {}, part == null ? "no examples" : `${names[i]} taken for ${names[j]}: ${(100 * part).toFixed(1)}\u00a0%`));
      if (cell >= 16 && part >= 0.005) add("text", { x: left + (j + 0.5) * cell, y: 9 + (i + 0.5) * cell, "text-anchor": "middle", style: `font-size:9px;pointer-events:none;${part > 0.5 ? "fill:#fff" : ""}` }, (100 * part).toFixed(0));
    });
  });
  add("text", { x: left + size / 2, y: below + 12, "text-anchor": "middle" }, "predicted class; rows: true class");
  const scale = size / 2;
  add("text", { x: left, y: below + 36, ...small }, "0 %");
  for (let step = 0; step < 20; step++) add("rect", { x: left + 20 + (step * scale) / 20, y: below + 28, width: scale / 20, height: 9, fill: "var(--accent)", "fill-opacity": 0.04 + (0.96 * step) / 19 });
  add("text", { x: left + 24 + scale, y: below + 36, ...small }, "100 % of a row");
  return el("figure", {}, el("figcaption", {}, name), svg);
}
function drawTradeoff(rows) {
  const options = DATA.metrics.map((m) => [m.key, titleOf(m)]);
  const again = (axis) => (v) => { view[axis] = v; drawTradeoff(sorted(visible())); };
  fill("tradeoff-controls", select("x", options, view.x, again("x")), select("y", options, view.y, again("y")));
  const [mx, my] = [METRIC.get(view.x) ?? DATA.metrics[0], METRIC.get(view.y) ?? DATA.metrics[0]];
  const value = (row, m) => { const cell = cellOf(row, m); return cell ? (m.percent ? 100 : 1) * number(cell[0]) : NaN; };
  const points = rows.map((r) => [value(r, mx), value(r, my), r]).filter(([x, y]) => Number.isFinite(x) && Number.isFinite(y));
  if (!points.length) return fill("tradeoff", empty("no row has both metrics"));
  const losses = [...new Set(DATA.rows.map((r) => r.loss))]; // a loss keeps its mark, however rows are sorted
  const there = new Set(points.map(([, , r]) => r.loss));
  const chart = new Chart({ width: room("tradeoff"), height: 340, x: extent(points.map((p) => p[0])), y: extent(points.map((p) => p[1]), true), xTitle: titleOf(mx), yTitle: titleOf(my) });
  for (const [x, y, r] of points) chart.mark(x, y, losses.indexOf(r.loss), `${nameOf(r, DATA.rows)}\n${titleOf(mx)} ${x.toFixed(2)}, ${titleOf(my)} ${y.toFixed(2)}`);
  fill("tradeoff", chart.svg, markLegend(losses, there));
}
function drawRuns(rows) {
  const shown = new Set(rows.map((r) => DATA.rows.indexOf(r)));
  const runs = DATA.runs.filter((run) => shown.has(run.row));
  const more = runs.length > MOST_RUNS ? [el("p", { class: "quiet" }, `${runs.length - MOST_RUNS} more runs: filter the table`)] : [];
  fill("runs", ...runs.slice(0, MOST_RUNS).map((run) => {
    const details = el("details", { class: "run", ontoggle: () => {
      if (!details.open || details.childElementCount > 1) return; // written when first opened
      details.append(el("h4", {}, "configuration"), el("pre", {}, lines(DATA.settings[run.settings])), el("h4", {}, "environment"), el("pre", {}, lines(run.environment)));
    } }, el("summary", {}, run.folder.replaceAll("/", "/\u200b")));
    return details;
  }), ...more);
}
const MOST_RUNS = 500; // that a browser lists quickly
const lines = (object) => Object.entries(object).map(([k, v]) => `${k}: ${typeof v === "string" ? v : JSON.stringify(v)}`).join("\n");
function drawPairs() {
  const section = document.getElementById("pairs-section");
  section.hidden = !DATA.pairs.length;
  if (section.hidden) return;
  const shown = DATA.pairs.find((p) => p.metric === view.pairs) ?? DATA.pairs[0];
  const options = DATA.pairs.map((p) => [p.metric, titleOf(METRIC.get(p.metric))]);
  fill("pairs-controls", select("by", options, shown.metric, (v) => { view.pairs = v; drawPairs(); }));
  const table = document.getElementById("pairs");
  const kind = (place) => (place < 2 ? "text" : "");
  table.tHead.replaceChildren(el("tr", {}, ...shown.head.map((title, place) => el("th", { class: kind(place), scope: "col" }, title))));
  table.tBodies[0].replaceChildren(...shown.rows.map((row) => el("tr", {}, ...row.map((text, place) => el("td", { class: kind(place) }, text)))));
  fill("pairs-lines", el("ul", {}, ...shown.lines.map((line) => el("li", {}, line))));
}
function drawNotes() {
  fill("notes", ...Object.entries(DATA.notes).flatMap(([title, notes]) => [el("h4", {}, title), el("ul", {}, ...notes.map((n) => el("li", {}, n)))]));
}
function drawViews() {
  const rows = chosenRows();
  const places = new Set(rows.map(placeOf));
  fill("place", places.size === 1 ? `Here: ${[...places][0]}.` : null);
  for (const draw of [drawReliability, drawRisk, drawRoc, drawShift, drawCurves, drawClasses, drawConfusion]) draw(rows);
}
