// Start: the first rows of the first table are chosen.
for (const metric of DATA.metrics) if (!hidden(metric)) state.columns.add(metric.key);
if (!METRIC.has(view.x)) view.x = DATA.metrics[0]?.key;
if (!METRIC.has(view.y)) view.y = DATA.metrics[0]?.key;
DATA.rows.map((_, i) => i).filter((i) => DATA.rows[i].rank).slice(0, 4).forEach((i) => state.chosen.add(i));
drawFilters();
drawTable();
drawNotes();
drawHeatMap();
drawPairs();
drawViews();
let width = innerWidth; // charts are drawn anew where their room changes
addEventListener("resize", () => {
  if (innerWidth === width) return;
  width = innerWidth;
  drawViews();
  drawTradeoff(sorted(visible()));
});
document.documentElement.dataset.ready = "true";
