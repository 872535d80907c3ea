"use strict";
// Numbers and elements. Data only ever become text nodes and attributes, never markup.
const DATA = JSON.parse(document.getElementById("data").textContent);
const SVG = "http://www.w3.org/2000/svg";
const PALETTE = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#888888"];
const DASHES = ["", "6 3", "2 2", "8 3 2 3"];
const colorOf = (i) => PALETTE[i % PALETTE.length];
const dashOf = (i) => DASHES[Math.floor(i / PALETTE.length) % DASHES.length];
const METRIC = new Map(DATA.metrics.map((m) => [m.key, m]));

function el(tag, attributes = {}, ...children) {
  const node = SVG_TAGS.has(tag) ? document.createElementNS(SVG, tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value !== false && value != null) node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.filter((c) => c != null));
  return node;
}
const SVG_TAGS = new Set(["svg", "g", "line", "polyline", "polygon", "rect", "circle", "text", "title"]);

function number(value) {
  return value === "inf" ? Infinity : value === "-inf" ? -Infinity : value == null ? NaN : value;
}
function show(metric, value) {
  const v = number(value);
  if (!Number.isFinite(v)) return Number.isNaN(v) ? "—" : v > 0 ? "∞" : "−∞";
  return (metric.percent ? 100 * v : v).toFixed(metric.decimals);
}
const titleOf = (metric) => metric.title + (metric.percent ? " %" : "");

function select(label, options, value, onchange) {
  const node = el("select", { "aria-label": label || options[0]?.[1], onchange: () => onchange(node.value) },
    ...options.map(([key, text]) => el("option", { value: key, selected: key === value }, text)));
  return el("label", {}, label, node);
}
function check(label, checked, onchange) {
  const node = el("input", { type: "checkbox", checked, onchange: () => onchange(node.checked) });
  return el("label", {}, node, label);
}
const fill = (id, ...children) => document.getElementById(id).replaceChildren(...children.filter((c) => c != null));
