/* SPDX-License-Identifier: Apache-2.0 */
/* Formats numbers and names for the page. */
const byId = id => document.getElementById(id);

const COLOURS = ["#4c78a8", "#f58518", "#54a24b", "#b279a2", "#e45756", "#2f9e8f", "#c9a227", "#9d755d", "#d6618f", "#79706e",
  "#5b8ff9", "#8a6fd1"];
const colourOf = kernel => COLOURS[kernel % COLOURS.length];

/* Formats a duration with three or four digits, as `pto profile` does. */
function time(ns) {
  const size = Math.abs(ns);
  if (size >= 1e9) return (ns / 1e9).toFixed(2) + " s";
  if (size >= 1e6) return (ns / 1e6).toFixed(size < 1e7 ? 2 : 1) + " ms";
  if (size >= 1e3) return (ns / 1e3).toFixed(size < 1e4 ? 2 : 1) + " us";
  return ns.toFixed(0) + " ns";
}

/*
 * Formats a time since the begin of the run. `step`, the distance of the marks on the axis, determines unit and digits.
 */
function moment(ns, step) {
  const unit = step >= 1e8 ? [1e9, "s"] : step >= 1e5 ? [1e6, "ms"] : step >= 100 ? [1e3, "us"] : [1, "ns"];
  const digits = Math.max(0, Math.min(6, Math.ceil(-Math.log10(step / unit[0]) - 1e-9)));
  return (ns / unit[0]).toFixed(digits) + " " + unit[1];
}

function bytes(count) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  while (count >= 1024 && unit < units.length - 1) { count /= 1024; unit++; }
  return (unit ? count.toFixed(1) : count) + " " + units[unit];
}

const percent = share => (100 * share).toFixed(1) + " %";
/* A thousandth, or 0. */
const rounded = share => Math.round(1000 * share) / 1000;
const change = share => (rounded(share) > 0 ? "+" : rounded(share) < 0 ? "−" : "±") + Math.abs(100 * rounded(share)).toFixed(1) + " %";
const count = n => String(n).replace(/\B(?=(\d{3})+$)/g, " ");
const plural = (n, word) => count(n) + " " + word + (n === 1 ? "" : "s");

/* Escapes a text for HTML. */
const html = text => String(text).replace(/[&<>"']/g, c => `&#${c.charCodeAt(0)};`);
/* Returns the name of a kernel, followed by its type of core if another kernel has the same name. */
const fullName = kernel => meta.kernels.some(other => other !== kernel && other.name === kernel.name && other.total > 0)
  ? `${kernel.name} (${kernel.core})` : kernel.name;
const swatch = kernel => `<span class="swatch" style="background:${colourOf(kernel)}"></span>`;

/*
 * Returns a distance for the marks of an axis: the smallest 1, 2 or 5 times a power of ten that is not less than
 * `least`.
 */
function niceStep(least) {
  const power = 10 ** Math.floor(Math.log10(Math.max(least, 1e-9)));
  for (const factor of [1, 2, 5]) if (power * factor >= least) return power * factor;
  return 10 * power;
}

/* Returns a colour from the style sheet, for drawing on a canvas. */
function styleColour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}
const rgbOf = colour => [1, 3, 5].map(at => parseInt(colour.slice(at, at + 2), 16));
