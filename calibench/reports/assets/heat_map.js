// The heat map of losses and calibrators: a metric of every loss raw and after every calibrator.
function drawHeatMap() {
  const section = document.getElementById("heat-map-section");
  const metrics = DATA.metrics.filter((m) => !m.cost && DATA.rows.some((r) => fittedOf([r], m).length > 1));
  section.hidden = !metrics.length;
  if (section.hidden) return;
  const metric = metrics.find((m) => m.key === view.heat) ?? metrics[0];
  const places = [...new Set(DATA.rows.filter((r) => fittedOf([r], metric).length).map(placeOf))];
  const place = places.includes(view.place) ? view.place : places[0];
  const again = (key) => (v) => { view[key] = v; drawHeatMap(); };
  fill("heat-map-controls", select("metric", metrics.map((m) => [m.key, titleOf(m)]), metric.key, again("heat")),
    places.length > 1 ? select("of", places.map((p) => [p, p]), place, again("place")) : empty(place));
  const rows = DATA.rows.filter((r) => placeOf(r) === place).sort((a, b) => (a.rank ?? Infinity) - (b.rank ?? Infinity));
  heatTable(rows, metric, fittedOf(rows, metric));
}
const fittedOf = (rows, metric) => DATA.calibrators.filter((c) => rows.some((r) => cellOf(r, metric, c)));
function heatTable(rows, metric, calibrators) {
  const badness = (row, c) => { const cell = cellOf(row, metric, c); return cell ? -(metric.direction || -1) * number(cell[0]) : NaN; };
  const finite = rows.flatMap((r) => calibrators.map((c) => badness(r, c))).filter(Number.isFinite);
  const [low, high] = [Math.min(...finite), Math.max(...finite)];
  const entry = (row, c) => {
    const cell = cellOf(row, metric, c);
    if (!cell) return el("td", { class: "hole" }, "—");
    const share = Number.isFinite(badness(row, c)) ? (badness(row, c) - low) / (high - low || 1) : 1;
    const classes = ["heat", badness(row, c) === low ? "least" : ""].join(" ");
    const spread = cell[1] == null ? "" : ` ±${show(metric, cell[1])}`;
    return el("td", { class: classes, style: `--share: ${(100 * share).toFixed(0)}%`, title: `${row.label}, ${c}: ${show(metric, cell[0])}${spread}` }, show(metric, cell[0]), cell[5] || null);
  };
  const table = document.getElementById("heat-map");
  table.tHead.replaceChildren(el("tr", {}, el("th", { class: "text name", scope: "col" }, "loss"), ...calibrators.map((c) => el("th", { scope: "col", title: c }, short(c)))));
  table.tBodies[0].replaceChildren(...rows.map((r) => el("tr", {}, el("td", { class: "text name", title: r.label }, broken(r.label)), ...calibrators.map((c) => entry(r, c)))));
}
