// The sortable, filterable table. `state` is all there is to know; `draw` follows from it.
const state = {
  text: "", benchmark: "", backbone: "", loss: "", calibrator: DATA.rows.some((r) => r.calibrator) ? "best" : "raw", spread: false,
  sort: "rank", down: false, columns: new Set(), chosen: new Set(),
};
const FIRST = new Set(DATA.columns.map(([key]) => key)); // those of the terminal's table
const hidden = (metric) => !FIRST.has(metric.key);
const isBest = () => state.calibrator === "best";

const twice = (key) => DATA.columns.filter(([name]) => name === key).length > 1;

// The columns of the table: after each row's calibrator those of the terminal, in its order, and then the others.
function shownColumns() {
  const metrics = DATA.metrics.filter((m) => state.columns.has(m.key));
  if (!isBest()) return metrics.map((m) => ({ metric: m, calibrator: state.calibrator, title: titleOf(m) }));
  const leading = DATA.columns.filter(([key]) => state.columns.has(key) && METRIC.has(key)).map(([key, calibrator]) => {
    const metric = METRIC.get(key);
    return { metric, calibrator, title: (calibrator === "raw" && twice(key) ? "raw " : "") + titleOf(metric) };
  });
  return [...leading, ...metrics.filter(hidden).map((m) => ({ metric: m, calibrator: "best", title: titleOf(m) }))];
}
const sortKey = (column) => (isBest() && column.calibrator === "raw" && twice(column.metric.key) ? `${column.metric.key}|raw` : column.metric.key);

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
  const column = shownColumns().find((c) => sortKey(c) === state.sort);
  if (column) { const cell = cellOf(row, column.metric, column.calibrator); return cell ? number(cell[0]) : NaN; }
  if (state.sort === "rank") return row.rank ?? NaN;
  return row[state.sort] ?? NaN;
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
    const direction = METRIC.get(key.split("|")[0])?.direction === 1;
    state.down = state.sort === key ? !state.down : direction;
    state.sort = key;
    drawTable();
  };
  return el("th", { "aria-sort": sort, class: className, scope: "col", "data-key": key }, el("button", { onclick: click, type: "button" }, text));
}
function drawTable() {
  const rows = sorted(visible());
  const columns = shownColumns();
  const several = (key) => new Set(DATA.rows.map((r) => r[key])).size > 1;
  const places = ["benchmark", "backbone"].filter(several);
  const table = document.getElementById("table");
  table.tHead.replaceChildren(el("tr", {}, heading("rank", "#", "rank"), heading("label", "loss", "text name"),
    ...places.map((p) => heading(p, p, "text place")), heading("seeds", "seeds"), isBest() ? heading("calibrator", "after", "text") : null, ...columns.map((c) => heading(sortKey(c), c.title))));
  table.tBodies[0].replaceChildren(...rows.map((row) => tableRow(row, places, columns)));
  if (state.sort === "rank") rows.forEach((row, i) => { // ranks begin anew
    if (i && (placeOf(row) !== placeOf(rows[i - 1]) || row.block !== rows[i - 1].block)) table.tBodies[0].rows[i].classList.add("divided");
  });
  document.getElementById("shown").textContent = `${rows.length} of ${DATA.rows.length} rows`;
  drawRuns(rows);
  drawTradeoff(rows);
}
function tableRow(row, places, columns) {
  const id = DATA.rows.indexOf(row);
  const toggle = (on) => { on ? state.chosen.add(id) : state.chosen.delete(id); drawTable(); drawViews(); };
  const box = el("input", { type: "checkbox", checked: state.chosen.has(id), "aria-label": `show ${row.label}`, onchange: (e) => toggle(e.target.checked) });
  return el("tr", { class: state.chosen.has(id) ? "chosen" : "" },
    el("td", { class: "rank", title: row.shown_rank === "~" ? "its seeds vary too much to rank" : null }, row.shown_rank),
    el("td", { class: "text name", title: row.label, "data-place": places.map((p) => row[p]).join(" · ") || null }, el("label", {}, box, broken(row.label))),
    ...places.map((p) => el("td", { class: "text place" }, row[p])),
    el("td", { class: row.seeds.includes("/") ? "hole" : "" }, row.seeds),
    isBest() ? el("td", { class: "text", title: row.calibrator ? null : "no calibrator chosen on validation" }, row.calibrator ?? "raw") : null, ...columns.map((c) => tableCell(row, c)));
}
function broken(label) { // a long name may break before a capital
  const parts = label.split(/(?<=[a-z])(?=[A-Z])/);
  return el("span", {}, ...parts.flatMap((part, i) => (i ? [el("wbr"), part] : [part])));
}
function tableCell(row, column) {
  const { metric, calibrator } = column;
  const cell = cellOf(row, metric, calibrator);
  if (!cell) return el("td", { class: "hole" }, "—");
  const ranks = metric.key === "nll" && calibrator === "best"; // its ± is always shown
  const spread = (state.spread || ranks) && cell[1] != null ? el("small", {}, ` ±${show(metric, cell[1])}`) : null;
  const [floor, p] = cell[4] ?? [];
  const title = cell[4] ? `p = ${p} for perfect calibration` : null;
  return el("td", { class: cell[2] ? "tied" : "", title }, show(metric, cell[0]), (isBest() ? cell[5]?.replace("~", "") : cell[5]) || null, spread); // the rank has the ~
}
function drawFilters() {
  const all = (key, text) => [["", `all ${text}`], ...[...new Set(DATA.rows.map((r) => r[key]))].sort().map((v) => [v, v])];
  const set = (key) => (value) => { state[key] = value; drawTable(); };
  const search = el("input", { type: "search", id: "search", placeholder: "filter by words", "aria-label": "filter by words", oninput: (e) => set("text")(e.target.value) });
  fill("filters", search,
    select("", all("benchmark", "benchmarks"), "", set("benchmark")), select("", all("backbone", "backbones"), "", set("backbone")),
    select("", all("loss", "losses"), "", set("loss")),
    select("after", [...(DATA.rows.some((r) => r.calibrator) ? [["best", "chosen on validation for each loss"]] : []), ...DATA.calibrators.map((c) => [c, c === "raw" ? "no calibration (raw)" : c])], state.calibrator, set("calibrator")),
    check("± over seeds in every column", false, set("spread")));
  fill("columns", ...DATA.metrics.map((m) => check(titleOf(m), state.columns.has(m.key), (on) => {
    on ? state.columns.add(m.key) : state.columns.delete(m.key);
    drawTable();
  })));
}
