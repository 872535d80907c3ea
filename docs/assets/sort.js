// A click on a column's head sorts a table by it: numbers by their value, what follows them (a deviation) aside.
document.querySelectorAll("article table:not(.highlighttable)").forEach((table) => {
  const rows = table.tBodies[0];
  if (!rows || rows.rows.length < 3) return;
  table.querySelectorAll("thead th").forEach((head, place) => {
    const button = document.createElement("button");
    button.append(...head.childNodes);
    button.title = "Sort by this column";
    head.append(button);
    button.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") === "ascending";
      table.querySelectorAll("th").forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const key = (row) => row.cells[place].textContent.trim();
      const order = (a, b) => {
        const [x, y] = [parseFloat(key(a)), parseFloat(key(b))];
        return isNaN(x) || isNaN(y) ? key(a).localeCompare(key(b)) : x - y;
      };
      const sorted = [...rows.rows].sort(order);
      rows.append(...(down ? sorted.reverse() : sorted));
    });
  });
});
