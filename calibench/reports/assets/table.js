// The sortable, filterable table. `state` is all there is to know; `draw` follows from it.
const state = {
  text: "", benchmark: "", backbone: "", loss: "", calibrator: DATA.rows.some((r) => r.calibrator) ? "best" : "raw", spread: true,
  sort: "rank", down: false, columns: new Set(), chosen: new Set(),
};
const FIRST = new Set(["nll", "brier", "ece", "error", "ood_auroc"]); // what a page of 1,280 pixels has room for
const hidden = (metric) => !FIRST.has(metric.key.split("/")[0]); // whatever the sets

function cellOf(row, metric, calibrator = state.calibrator) {
  const raw = metric.cost || (calibrator === "best" && !row.calibrator); // such a row is ranked by raw NLL
  return row.cells[`${metric.key}|${raw ? "raw" : calibrator}`];
}
function visible() {
  const words = state.text.toLowerCase().split(/\s+/).filter(Boolean);
  return DATA.rows.filter((row) => {
    const text = `${row.benchmark} ${row.backbone} ${row.label}`.toLowerCase();
    return ["benchmark", "backbone", "loss"].every((key) => !state[key] || row[key] === state[key]) && words.every((w) => text.includes(w));
  });
}
function sortValue(row) {
  const metric = METRIC.get(state.sort);
  if (metric) { const cell = cellOf(row, metric); return cell ? number(cell[0]) : NaN; }
  if (state.sort === "rank") return row.rank ?? NaN;
  return row[state.sort];
}
function sorted(rows) {
  const sign = state.down ? -1 : 1;
  const place = (row) => `${row.benchmark}\n${row.backbone}\n${row.block}`;
  return [...rows].sort((a, b) => {
    const [x, y] = [sortValue(a), sortValue(b)];
    const [p, q] = [Number.isNaN(x), Number.isNaN(y)];
    if (state.sort === "rank" && place(a) !== place(b)) return place(a).localeCompare(place(b));
    if (p || q) return p - q; // holes last, whichever way
    return sign * (typeof x === "string" ? x.localeCompare(y) : x === y ? 0 : x - y);
  });
}
function heading(key, text, className = "") {
  const sort = state.sort === key ? (state.down ? "descending" : "ascending") : "none";
  const click = () => {
    const direction = METRIC.get(key)?.direction === 1;
    state.down = state.sort === key ? !state.down : direction;
    state.sort = key;
    drawTable();
  };
  return el("th", { "aria-sort": sort, class: className, scope: "col", "data-key": key }, el("button", { onclick: click, type: "button" }, text));
}
function drawTable() {
  const rows = sorted(visible());
  const metrics = DATA.metrics.filter((m) => state.columns.has(m.key));
  const several = (key) => new Set(DATA.rows.map((r) => r[key])).size > 1;
  const places = ["benchmark", "backbone"].filter(several);
  const table = document.getElementById("table");
  table.tHead.replaceChildren(el("tr", {}, heading("label", "loss", "text name"),
    heading("rank", "#"), ...places.map((p) => heading(p, p, "text place")), heading("seeds", "seeds"), ...metrics.map((m) => heading(m.key, titleOf(m)))));
  table.tBodies[0].replaceChildren(...rows.map((row) => tableRow(row, places, metrics)));
  if (state.sort === "rank") rows.forEach((row, i) => { // ranks begin anew
    if (i && (placeOf(row) !== placeOf(rows[i - 1]) || row.block !== rows[i - 1].block)) table.tBodies[0].rows[i].classList.add("divided");
  });
  document.getElementById("shown").textContent = `${rows.length} of ${DATA.rows.length} rows`;
  drawRuns(rows);
  drawTradeoff(rows);
}
function tableRow(row, places, metrics) {
  const id = DATA.rows.indexOf(row);
  const toggle = (on) => { on ? state.chosen.add(id) : state.chosen.delete(id); drawTable(); drawViews(); };
  const box = el("input", { type: "checkbox", checked: state.chosen.has(id), "aria-label": `show ${row.label}`, onchange: (e) => toggle(e.target.checked) });
  return el("tr", { class: state.chosen.has(id) ? "chosen" : "" },
    el("td", { class: "text name", title: row.label, "data-place": places.map((p) => row[p]).join(" · ") || null }, el("label", {}, box, broken(row.label), state.calibrator === "best" ? el("small", {}, ` after ${row.calibrator ?? "raw, no validation predictions"}`) : null)),
    el("td", {}, row.rank ?? "—"), ...places.map((p) => el("td", { class: "text place" }, row[p])),
    el("td", { class: row.seeds.includes("/") ? "hole" : "" }, row.seeds), ...metrics.map((m) => tableCell(row, m)));
}
function broken(label) { // a long name may break before a capital
  const parts = label.split(/(?<=[a-z])(?=[A-Z])/);
  return el("span", {}, ...parts.flatMap((part, i) => (i ? [el("wbr"), part] : [part])));
}
function tableCell(row, metric) {
  const cell = cellOf(row, metric);
  if (!cell) return el("td", { class: "hole" }, "—");
  const spread = state.spread && cell[1] != null ? el("small", {}, ` ±${show(metric, cell[1])}`) : null;
  const [floor, p] = cell[4] ?? [];
  const title = cell[4] ? `p = ${p} of perfect calibration` : null;
  return el("td", { class: cell[2] ? "tied" : "", title }, show(metric, cell[0]), cell[5] || null, spread);
}
function drawFilters() {
  const all = (key, text) => [["", `all ${text}`], ...[...new Set(DATA.rows.map((r) => r[key]))].sort().map((v) => [v, v])];
  const set = (key) => (value) => { state[key] = value; drawTable(); };
  const search = el("input", { type: "search", id: "search", placeholder: "filter by words", "aria-label": "filter by words", oninput: (e) => set("text")(e.target.value) });
  fill("filters", search,
    select("", all("benchmark", "benchmarks"), "", set("benchmark")), select("", all("backbone", "backbones"), "", set("backbone")),
    select("", all("loss", "losses"), "", set("loss")),
    select("after", [...(DATA.rows.some((r) => r.calibrator) ? [["best", "each loss's own calibrator, chosen on validation"]] : []), ...DATA.calibrators.map((c) => [c, c === "raw" ? "no calibration (raw)" : c])], state.calibrator, set("calibrator")),
    check("± over seeds", true, set("spread")));
  fill("columns", ...DATA.metrics.map((m) => check(titleOf(m), state.columns.has(m.key), (on) => {
    on ? state.columns.add(m.key) : state.columns.delete(m.key);
    drawTable();
  })));
}
