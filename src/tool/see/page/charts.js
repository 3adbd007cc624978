/* SPDX-License-Identifier: Apache-2.0 */
/* Static drawings: the graph of kernels, and amounts over time. */

/* ---- the graph of kernels ---- */

/*
 * Returns `forward`, the links without those that close a cycle, and `sorted`, the kernels in an order in which all
 * forward links lead to later kernels. A depth-first search finds both; it begins with the kernels in the given order.
 */
function linksForward(order, links) {
  const state = new Map(), forward = [], sorted = [];
  const visit = k => {
    state.set(k, "open");
    for (const link of links)
      if (link.from === k && link.to !== k && state.get(link.to) !== "open") {
        forward.push(link);
        if (!state.has(link.to)) visit(link.to);
      }
    state.set(k, "done");
    sorted.unshift(k);
  };
  for (const k of order) if (!state.has(k)) visit(k);
  return { forward, sorted };
}

/*
 * Places the kernels in columns. Kernels are taken in the order of their first submits. A link moves the kernel that it
 * leads to at least one column to the right of the kernel that it comes from, unless it closes a cycle.
 */
function placeKernels(links) {
  const first = new Float64Array(meta.kernels.length).fill(Infinity), layer = new Map();
  for (let t = run.tasks - 1; t >= 0; t--) if (kernelOfTask(t) !== NONE) first[kernelOfTask(t)] = t;
  const order = [...first.keys()].filter(k => first[k] < Infinity).sort((a, b) => first[a] - first[b]);
  for (const k of order) layer.set(k, 0);
  const { forward, sorted } = linksForward(order, links);
  for (const k of sorted)
    for (const link of forward)
      if (link.from === k) layer.set(link.to, Math.max(layer.get(link.to), layer.get(k) + 1));
  return { order, layer };
}

const NODE = { width: 170, height: 46, across: 350, down: 70 };

function nodePlaces({ order, layer }) {
  const places = new Map(), filled = [];
  for (const k of order) {
    const l = layer.get(k), at = filled[l] = (filled[l] ?? -1) + 1;
    places.set(k, { x: 10 + l * NODE.across, y: 30 + at * NODE.down, layer: l });
  }
  const tallest = Math.max(...filled.map(n => n + 1), 1);
  for (const [, place] of places) place.y += (tallest - filled[place.layer] - 1) * NODE.down / 2;
  return { places, width: filled.length * NODE.across, height: 40 + tallest * NODE.down };
}

/*
 * Returns the arrow of a link as an SVG path, and the position of its number. Links that lead backwards pass below the
 * boxes, links over several columns above them, each farther away from the boxes than the last.
 */
function routeOf(from, to, places, out) {
  const a = places.get(from), b = places.get(to), middle = NODE.height / 2, half = NODE.width / 2;
  if (from === to) return { path: `M${a.x + half + 26} ${a.y}c14 -24 -66 -24 -54 -3`, x: a.x + half + 34, y: a.y - 8, anchor: "start" };
  if (b.layer === a.layer + 1) {
    const x0 = a.x + NODE.width, x1 = b.x - 4, bend = (x1 - x0) / 2, y0 = a.y + middle, y1 = b.y + middle;
    return { path: `M${x0} ${y0}C${x0 + bend} ${y0} ${x1 - bend} ${y1} ${x1} ${y1}`, x: (x0 + x1) / 2, y: (y0 + y1) / 2 - 5, anchor: "middle" };
  }
  const isBack = b.layer <= a.layer, side = isBack ? 1 : -1, sign = a.x < b.x ? -12 : 12;
  const edge = isBack ? Math.max(a.y, b.y) + NODE.height : Math.min(a.y, b.y);
  const turn = edge + side * (30 + 20 * (isBack ? out.below++ : out.above++)), x0 = a.x + half - 2 * sign, x1 = b.x + half + 2 * sign;
  out.lowest = Math.max(out.lowest, turn);
  out.highest = Math.min(out.highest, turn - 16);
  const y0 = a.y + (isBack ? NODE.height : 0), y1 = b.y + (isBack ? NODE.height : 0) + 4 * side;
  return { path: `M${x0} ${y0}C${x0} ${turn} ${x0} ${turn} ${(x0 + x1) / 2} ${turn}S${x1} ${turn} ${x1} ${y1}`,
    x: (x0 + x1) / 2, y: turn - 4, anchor: "middle" };
}

function linkOf({ from, to, count: edges, kinds }, places, most, out) {
  if (!places.has(from) || !places.has(to)) return "";
  const route = routeOf(from, to, places, out), thick = 1 + 3 * Math.sqrt(edges / most), what = `${count(edges)} ${kinds}`;
  return `<path class="edge" stroke-width="${thick.toFixed(1)}" marker-end="url(#tip-of-edge)" d="${route.path}"><title>${html(what)}</title></path>` +
    `<text class="small on-edge" x="${route.x}" y="${route.y}" text-anchor="${route.anchor}">${html(what)}</text>`;
}

function showGraph() {
  const NODES_MAX = 40, LINKS_MAX = 60;
  if (meta.links.length === 0) { byId("graph").innerHTML = '<p class="dim">No task depends on another one.</p>'; return; }
  const placed = placeKernels(meta.links);
  if (placed.order.length > NODES_MAX || meta.links.length > LINKS_MAX) {
    byId("graph").innerHTML = `<p class="dim">${placed.order.length} kernels with ${meta.links.length} kinds of edges are too many for a drawing here: ` +
      "pto graph writes it for Graphviz.</p>";
    return;
  }
  const { places, width, height } = nodePlaces(placed), most = Math.max(...meta.links.map(link => link.count));
  const out = { below: 0, above: 0, lowest: height - 20, highest: 0 };
  const links = meta.links.map(link => linkOf(link, places, most, out));
  const nodes = placed.order.map(k => {
    const { x, y } = places.get(k), kernel = meta.kernels[k];
    return `<g><rect class="box" x="${x}" y="${y}" width="${NODE.width}" height="${NODE.height}" rx="4"/>` +
      `<rect x="${x}" y="${y}" width="6" height="${NODE.height}" fill="${colourOf(k)}"/><text x="${x + 14}" y="${y + 19}">${html(fullName(kernel).slice(0, 22))}</text>` +
      `<text class="small" x="${x + 14}" y="${y + 36}">${count(kernel.count)} × ${time(kernel.median)}</text></g>`;
  });
  byId("graph").innerHTML = `<svg viewBox="0 ${out.highest} ${width} ${out.lowest - out.highest + 12}" width="${width}" role="img" aria-label="graph of kernels">` +
    '<defs><marker id="tip-of-edge" viewBox="0 0 8 8" refX="6" refY="4" markerWidth="8" markerHeight="8" markerUnits="userSpaceOnUse" orient="auto">' +
    '<path d="M0 0L8 4L0 8z" fill="var(--dim)"/></marker></defs>' + links.join("") + nodes.join("") + "</svg>" +
    `<p class="dim">Numbers: edges between tasks of two kernels, by reason.${meta.edgesNote && run.edgeFrom.length > 0 ? " " + html(meta.edgesNote) : ""}</p>`;
}

/* ---- amounts over time ---- */

/* Draws a step chart: at each [ns, amount] of `points` the amount changes. `name` formats an amount. */
function areaChart(place, points, name) {
  const width = 600, height = 130, top = 16, low = height - 16, most = Math.max(...points.map(p => p[1]), 1);
  const x = ns => (ns / meta.span * width).toFixed(1), y = amount => (low - amount / most * (low - top)).toFixed(1);
  let path = `M0 ${low}`, last = 0;
  for (const [ns, amount] of points) {
    path += `L${x(ns)} ${y(last)}L${x(ns)} ${y(amount)}`;
    last = amount;
  }
  const step = niceStep(meta.span / 6);
  let axis = "";
  /* no label near the right border, where it would be cut off */
  for (let at = 0; at < meta.span - step / 3; at += step)
    axis += `<text class="small" x="${x(at)}" y="${height - 3}">${moment(at, step)}</text>`;
  place.innerHTML = `<svg class="wide" viewBox="0 0 ${width} ${height}" role="img"><path class="area" d="${path}L${width} ${y(last)}L${width} ${low}Z"/>` +
    `<path class="axis" d="M0 ${low}H${width}"/>${axis}<text class="small" x="0" y="11">at most ${name(most)}</text></svg>`;
}

/*
 * Draws the number of live tasks, which were submitted and have not ended: the maximum in each of STRETCHES equal
 * intervals.
 */
function showLive() {
  const STRETCHES = 500, change = new Int32Array(STRETCHES + 1), points = [];
  const at = ns => Math.max(0, Math.min(STRETCHES - 1, Math.floor(ns / meta.span * STRETCHES)));
  for (let t = 0; t < run.tasks; t++) {
    if (run.sliceOf[t] === NONE) continue;
    change[at(run.submit[t])]++;
    change[at(run.finish[t]) + 1]--;
  }
  for (let i = 0, live = 0; i < STRETCHES; i++) points.push([i * meta.span / STRETCHES, live += change[i]]);
  areaChart(byId("live"), points, count);
}

function showMemory() {
  if (!meta.memory || meta.memory.length === 0) return;
  byId("memory-section").hidden = false;
  areaChart(byId("memory"), meta.memory, bytes);
}
