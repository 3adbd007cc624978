/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The selected task: its times, its source line, its neighbours with the reasons of their edges; search; steps along
 * the critical path.
 */
const NEIGHBOURS_MAX = 64, BOXES_MAX = 8;

/*
 * Adds a neighbour to the list `out`. Several edges to one task make one neighbour, with all reasons and, for each
 * reason, its pairs of arguments.
 */
function addNeighbour(out, task, e) {
  const [reason, pair] = describeEdge(e);
  let known = out.find(edge => edge.task === task);
  if (!known) out.push(known = { task, pairs: new Map() });
  if (!known.pairs.has(reason)) known.pairs.set(reason, []);
  known.pairs.get(reason).push(pair);
}

/* Formats the reasons of a neighbour as "RAW 2→0, 3→1; creator →0". */
const reasonOf = edge => [...edge.pairs].map(([reason, pairs]) => reason + " " + pairs.join(", ")).join("; ");

function predecessorsOf(t) {
  const out = [];
  for (let e = run.edgeAt[t]; e < run.edgeAt[t + 1] && out.length < NEIGHBOURS_MAX; e++) addNeighbour(out, run.edgeFrom[e], e);
  if (run.readyBy[t] !== NONE && !out.some(edge => edge.task === run.readyBy[t])) out.push({ task: run.readyBy[t], pairs: new Map() });
  return out;
}

/*
 * For each task, the edges to its successors. The recording lists only edges to predecessors, so this index is made at
 * the first use.
 */
let laterEdges = null;
function indexSuccessors() {
  const at = new Uint32Array(run.tasks + 1), n = run.edgeFrom.length, edge = new Uint32Array(n), to = new Uint32Array(n);
  for (let e = 0; e < n; e++) at[run.edgeFrom[e] + 1]++;
  for (let t = 0; t < run.tasks; t++) at[t + 1] += at[t];
  const next = at.slice();
  for (let t = 0; t < run.tasks; t++)
    for (let e = run.edgeAt[t]; e < run.edgeAt[t + 1]; e++) { const place = next[run.edgeFrom[e]]++; edge[place] = e; to[place] = t; }
  laterEdges = { at, edge, to };
}

function successorsOf(t) {
  const out = [];
  if (laterEdges === null) indexSuccessors();
  for (let i = laterEdges.at[t]; i < laterEdges.at[t + 1] && out.length < NEIGHBOURS_MAX; i++)
    addNeighbour(out, laterEdges.to[i], laterEdges.edge[i]);
  return out;
}

/*
 * Returns the reason of an edge, and its two arguments as text. The lowest four bits of edgeReason are an index into
 * `meta.edgeReasons`; bit 7 is set if the predecessor had ended before the task was submitted.
 */
function describeEdge(e) {
  const reason = meta.edgeReasons[run.edgeReason[e] & 15], from = run.edgeFromArgument[e], to = run.edgeToArgument[e];
  return [reason, (from || to ? `${from ? from - 1 : ""}→${to ? to - 1 : ""}` : "") + (run.edgeReason[e] & 128 ? " (had ended)" : "")];
}

const describeSite = site => `${html(site.file)}:${site.line}`;

function describeSlice(i) {
  const t = run.task[i], waited = run.begin[i] - run.ready[t];
  const lines = [`<b>${html(meta.kernels[run.kernel[i]].name)}</b>, task ${t}${run.block[i] ? `, block ${run.block[i]}` : ""}`,
    `${time(run.end[i] - run.begin[i])} from ${time(run.begin[i])}`];
  if (waited >= 1) lines.push(`was ready ${time(waited)} before`);
  if (run.readyBy[t] !== NONE) lines.push(`made ready by ${html(nameOfTask(run.readyBy[t]))}, task ${run.readyBy[t]}`);
  if (siteOfTask(t)) lines.push(describeSite(siteOfTask(t)));
  if (run.onPath[t]) lines.push("<b>on the critical path</b>");
  return lines.join("<br>");
}

function rowsOfTask(t) {
  const site = siteOfTask(t), i = run.sliceOf[t], rows = [["kernel", html(nameOfTask(t))]];
  if (flagsOf(t).length > 0) rows.push(["kind", html(flagsOf(t).join(", "))]);
  if (site) rows.push(["submitted by", describeSite(site) + (site.text ? ` <code>${html(site.text)}</code>` : "")]);
  if (meta.shapes[run.shapes[t]]) rows.push(["arguments", html(meta.shapes[run.shapes[t]])]);
  rows.push(["submitted at", time(run.submit[t])]);
  if (i === NONE) return rows;
  const by = run.readyBy[t];
  rows.push(["ready at", time(run.ready[t]) + (by === NONE ? ", when it was submitted" : `, when <b>${html(nameOfTask(by))}</b>, task ${by}, ended`)]);
  rows.push(["ran", `${time(run.finish[t] - run.start[t])} from ${time(run.start[t])} on ${html(meta.lanes[laneOfSlice(i)].name)}`]);
  rows.push(["ready, not started", time(Math.max(0, run.start[t] - run.ready[t]))]);
  if (run.onPath[t]) rows.push(["critical path", "<b>this task is on it</b>"]);
  return rows;
}

/* ---- the drawing of the task and its neighbours ---- */

function boxOf(t, x, y, reason) {
  const kernel = kernelOfTask(t), colour = kernel === NONE ? "var(--dim)" : colourOf(kernel), i = run.sliceOf[t];
  const long = i === NONE ? "" : ", " + time(run.finish[t] - run.start[t]);
  return `<g data-go="${t}" tabindex="0" role="button"><rect class="box${t === view.selected ? " chosen" : ""}" x="${x}" y="${y}" width="190" height="36" rx="4"/>` +
    `<rect x="${x}" y="${y}" width="6" height="36" fill="${colour}"/><text x="${x + 13}" y="${y + 15}">${html(nameOfTask(t).slice(0, 26))}</text>` +
    `<text class="small" x="${x + 13}" y="${y + 29}">task ${t}${long}</text><title>${html(reason)}</title></g>`;
}

function sideOf(edges, x, boxX, middle, isBefore, t) {
  const REASON_MAX = 46, shown = edges.slice(0, BOXES_MAX), lines = [], out = [];
  shown.forEach((edge, at) => {
    const task = edge.task, reason = reasonOf(edge), short = reason.length > REASON_MAX ? reason.slice(0, REASON_MAX) + "…" : reason;
    const y = 4 + at * 44, strong = isBefore ? task === run.readyBy[t] : run.readyBy[task] === t;
    const [x0, y0, x1, y1] = isBefore ? [boxX + 190, y + 18, x, middle] : [x + 190, middle, boxX, y + 18];
    lines.push(`<path class="edge${strong ? " strong" : ""}" d="M${x0} ${y0}C${(x0 + x1) / 2} ${y0} ${(x0 + x1) / 2} ${y1} ${x1} ${y1}"/>`);
    out.push(boxOf(task, boxX, y, reason));
    out.push(`<text class="small on-edge" x="${isBefore ? x0 + 6 : x1 - 6}" y="${y + 14}" text-anchor="${isBefore ? "start" : "end"}">` +
      `${html(short)}<title>${html(reason)}</title></text>`);
  });
  return lines.join("") + out.join("");
}

function drawAround(t) {
  const first = run.readyBy[t];
  const before = predecessorsOf(t).sort((a, b) => (b.task === first) - (a.task === first) || run.finish[b.task] - run.finish[a.task]);
  const after = successorsOf(t).sort((a, b) => (run.readyBy[b.task] === t) - (run.readyBy[a.task] === t));
  const rows = Math.max(1, Math.min(BOXES_MAX, Math.max(before.length, after.length))), height = rows * 44 + 4, middle = height / 2;
  const more = (edges, word) => edges.length > BOXES_MAX ? `${edges.length}${edges.length >= NEIGHBOURS_MAX ? " or more" : ""} ${word}, ${BOXES_MAX} shown. ` : "";
  byId("around").innerHTML = `<svg viewBox="0 0 1210 ${height}" width="1210" role="img" aria-label="neighbours of the task">` +
    sideOf(before, 510, 0, middle, true, t) + sideOf(after, 510, 1020, middle, false, t) + boxOf(t, 510, middle - 18, "") + "</svg>" +
    `<p class="dim">Left: what it depends on. Right: what depends on it. Red: the edge that made a task ready. ` +
    `RAW 2→0: argument 2 of the earlier task and argument 0 of the later one. ` +
    `${more(before, "predecessors")}${more(after, "successors")}${meta.edgesNote ? html(meta.edgesNote) : ""}</p>`;
}

function select(t) {
  view.selected = t;
  const box = byId("task");
  box.className = t === NONE ? "dim" : "";
  if (t === NONE) {
    box.textContent = "Select a task: click it, search for it, or step along the critical path.";
    byId("around").innerHTML = "";
  } else {
    box.innerHTML = "<dl>" + rowsOfTask(t).map(([name, value]) => `<dt>${name}</dt><dd>${value}</dd>`).join("") + "</dl>";
    drawAround(t);
  }
  askForFrame();
}

/* Selects a task, and moves the view if the task is not visible or too small. */
function goTo(t) {
  select(t);
  if (run.sliceOf[t] === NONE) return;
  const long = Math.max(1, run.finish[t] - run.start[t]), size = view.to - view.from;
  const isVisible = run.start[t] >= view.from && run.finish[t] <= view.to && long > size / 200;
  if (isVisible) return;
  const next = Math.min(meta.span, Math.max(long * 12, Math.min(size, long * 60)));
  look(run.start[t] + long / 2 - next / 2, run.start[t] + long / 2 + next / 2);
}

function stepOnPath(by) {
  if (run.path.length === 0) return;
  const at = run.path.indexOf(view.selected);
  const from = at >= 0 ? at + by : by > 0 ? firstAbove(pathBegins(), 0, run.path.length, view.from) : run.path.length - 1;
  goTo(run.path[Math.max(0, Math.min(run.path.length - 1, from))]);
}

/* ---- search ---- */

function matcherOf(text) {
  const line = /^(.+):(\d+)$/.exec(text);
  if (line) {
    const sites = new Set(meta.sites.map((site, s) => site.line === +line[2] && site.file.endsWith(line[1]) ? s : -1));
    return t => sites.has(run.site[t]);
  }
  const small = text.toLowerCase(), kernels = new Set(), files = new Set();
  meta.kernels.forEach((kernel, k) => { if (kernel.name.toLowerCase().includes(small)) kernels.add(k); });
  meta.sites.forEach((site, s) => { if (site.file.toLowerCase().includes(small)) files.add(s); });
  return t => kernels.has(kernelOfTask(t)) || files.has(run.site[t]);
}

/*
 * Shows the task with this number, or the next task in the order of time whose name or source line matches the text.
 * The search continues at the first task after the last one.
 */
function find(text) {
  const found = byId("found");
  if (text === "") { found.textContent = ""; return; }
  if (/^\d+$/.test(text)) {
    if (+text >= run.tasks) { found.textContent = `tasks are 0 to ${run.tasks - 1}`; return; }
    found.textContent = "";
    goTo(+text);
    return;
  }
  const matches = matcherOf(text), after = view.selected === NONE ? -1 : run.start[view.selected];
  let next = NONE, first = NONE, total = 0;
  for (let t = 0; t < run.tasks; t++) {
    if (run.sliceOf[t] === NONE || !matches(t)) continue;
    const isLater = run.start[t] > after || run.start[t] === after && t > view.selected;
    if (first === NONE || run.start[t] < run.start[first]) first = t;
    if (isLater && (next === NONE || run.start[t] < run.start[next])) next = t;
    total++;
  }
  found.textContent = total ? plural(total, "task") : "no task matches";
  if (total) goTo(next === NONE ? first : next);
}
