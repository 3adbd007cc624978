/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The chart of lanes. Each lane is a row of small pixels, drawn into memory and scaled up, with names of kernels where
 * there is room. The height of a pixel column shows how busy the lane was, its colours the two kernels that took most
 * of the time.
 */
const LEFT = 92, AXIS = 18, HEADING = 16, FIT_PIXELS = 620, CELLS_MAX = 10;
const view = { from: 0, to: Math.max(1, meta.span), isPath: false, kernel: NONE, selected: NONE };
const canvas = byId("lanes"), paper = canvas.getContext("2d", { alpha: false });
const strip = document.createElement("canvas"), stripPaper = strip.getContext("2d");
const closed = new Set();
const sheet = { rows: [], width: 0, height: 0, lane: 8, cells: 8, image: null, pixels: null, colours: null };

/* ---- rows of the chart: groups, lanes with slices, and one row for all lanes without ---- */

function rowsOfGroup(group) {
  const lanes = meta.lanes.map((lane, at) => ({ lane, at })).filter(x => x.lane.group === group);
  const rows = lanes.filter(x => x.lane.count > 0).map(x => ({ kind: "lane", lane: x.at, name: x.lane.name }));
  const unused = {};
  const isCore = kind => ["AIC", "AIV", "SUB", "chip", "worker"].includes(kind);
  for (const { lane } of lanes) if (lane.count === 0 && isCore(lane.kind)) unused[lane.kind] = (unused[lane.kind] || 0) + 1;
  for (const kind in unused) rows.push({ kind: "note", name: `${unused[kind]} ${kind} never used` });
  return rows;
}

function makeRows() {
  sheet.rows = [];
  meta.groups.forEach((name, group) => {
    if (meta.groups.length > 1) sheet.rows.push({ kind: "group", name, group });
    if (!closed.has(group)) sheet.rows.push(...rowsOfGroup(group));
  });
}

function resize() {
  const scale = devicePixelRatio || 1;
  makeRows();
  const lanes = sheet.rows.filter(row => row.kind === "lane").length, others = sheet.rows.length - lanes;
  sheet.lane = Math.max(6, Math.min(20, Math.floor((FIT_PIXELS - others * HEADING) / Math.max(1, lanes))));
  sheet.cells = Math.min(CELLS_MAX, sheet.lane);
  sheet.width = Math.max(LEFT + 1, canvas.clientWidth);
  let y = AXIS;
  for (const row of sheet.rows) {
    row.y = y;
    row.height = row.kind === "lane" ? sheet.lane : HEADING;
    y += row.height;
  }
  sheet.height = y + 2;
  canvas.style.height = sheet.height + "px";
  canvas.width = sheet.width * scale;
  canvas.height = sheet.height * scale;
  paper.setTransform(scale, 0, 0, scale, 0, 0);
  strip.width = sheet.width - LEFT;
  strip.height = Math.max(1, lanes * sheet.cells);
  sheet.image = stripPaper.createImageData(strip.width, strip.height);
  sheet.pixels = new Uint32Array(sheet.image.data.buffer);
  resizeOverview(scale);
  forgetColours();
}

/* ---- drawing the lanes into `strip`, the canvas in memory ---- */

const forgetColours = () => { sheet.colours = null; };
const packed = ([r, g, b]) => (255 << 24 | b << 16 | g << 8 | r) >>> 0;
const mix = (a, b, share) => a.map((c, i) => Math.round(c + (b[i] - c) * share));

function readColours() {
  const ground = rgbOf(styleColour("--panel"));
  sheet.colours = { ground: packed(ground), plain: new Uint32Array(meta.kernels.length), pale: new Uint32Array(meta.kernels.length),
    ink: styleColour("--ink"), page: styleColour("--ground"), dim: styleColour("--dim"), hot: styleColour("--hot"),
    line: styleColour("--line") };
  meta.kernels.forEach((_, kernel) => {
    const colour = rgbOf(colourOf(kernel));
    sheet.colours.plain[kernel] = packed(colour);
    sheet.colours.pale[kernel] = packed(mix(ground, colour, .22));
  });
}

/*
 * For each pixel column of one lane: the shares of its two largest kernels, and whether it has a task of the critical
 * path.
 */
const column = { first: new Float32Array(0), second: null, kernel: null, other: null, hot: null };

function clearColumns(width) {
  if (column.first.length !== width) {
    column.first = new Float32Array(width);
    column.second = new Float32Array(width);
    column.kernel = new Uint16Array(width);
    column.other = new Uint16Array(width);
    column.hot = new Uint8Array(width);
  }
  column.first.fill(0);
  column.second.fill(0);
  column.hot.fill(0);
}

function addToColumn(x, kernel, share) {
  const { first, second } = column;
  if (first[x] === 0 || column.kernel[x] === kernel) { first[x] += share; column.kernel[x] = kernel; return; }
  if (second[x] === 0 || column.other[x] === kernel) { second[x] += share; column.other[x] = kernel; }
  else if (second[x] < share) { first[x] += second[x]; second[x] = share; column.other[x] = kernel; }
  else first[x] += share;
  if (second[x] > first[x]) {
    const share = first[x], kernel = column.kernel[x];
    first[x] = second[x]; column.kernel[x] = column.other[x];
    second[x] = share; column.other[x] = kernel;
  }
}

/*
 * Returns the coarsest level of detail whose blocks are at most about two pixel columns wide; -1: use the slices themselves.
 */
function levelFor(slicesPerColumn) {
  let chosen = -1;
  for (let i = 0, size = LEVEL_FACTOR; i < LEVEL_COUNT && slicesPerColumn >= size / 2; i++, size *= LEVEL_FACTOR) chosen = i;
  return chosen;
}

/* Slices, or blocks of them, of which two kernels take a share. One loop without calls that take fractions: these allocate. */
function collect(blocks, low, high, width, scale) {
  const { begin, end, kernel, other, first, second, hot } = blocks, from = view.from, onPath = column.hot;
  for (let q = low; q < high; q++) {
    const x0 = (begin[q] - from) * scale, x1 = (end[q] - from) * scale, left = x0 > 0 ? x0 : 0, right = x1 < width ? x1 : width;
    const share = first ? first[q] / (end[q] - begin[q] || 1) : 1, rest = second ? second[q] / (end[q] - begin[q] || 1) : 0;
    for (let x = left | 0; x < right; x++) {
      const part = (x + 1 < right ? x + 1 : right) - (x > left ? x : left);
      addToColumn(x, kernel[q], part * share);
      if (rest > 0) addToColumn(x, other[q], part * rest);
      if (hot[q]) onPath[x] = 1;
    }
  }
}

/* Where the visible part of a lane is among slices or blocks. */
function visible({ begin, end, laneAt }, lane) {
  const low = firstAbove(end, laneAt[lane], laneAt[lane + 1], view.from);
  return [low, firstAbove(begin, low, laneAt[lane + 1], view.to)];
}

function collectLane(lane, width, scale) {
  const [low, high] = visible(run, lane), level = levelFor((high - low) / width);
  clearColumns(width);
  if (level < 0) collect(run, low, high, width, scale);
  else collect(levels[level], ...visible(levels[level], lane), width, scale);
}

/* The colours of kernels: of columns on the critical path, and of all others. */
function shadesOf() {
  const { plain, pale } = sheet.colours, isPale = kernel => view.kernel !== NONE && kernel !== view.kernel;
  const hot = view.kernel === NONE ? plain : plain.map((colour, kernel) => isPale(kernel) ? pale[kernel] : colour);
  return { hot, other: view.isPath ? pale : hot };
}

/* The cells have the colour of the ground. */
function paintCells(row, width, shades) {
  const { cells, pixels } = sheet, { first, second, kernel, other, hot } = column, bottom = (row + 1) * cells * width;
  for (let x = 0; x < width; x++) {
    const busy = first[x] + second[x];
    if (busy <= 0) continue;
    const filled = Math.max(1, Math.min(1, busy) * cells + .5 | 0), above = second[x] / busy * filled + .5 | 0;
    const colours = hot[x] ? shades.hot : shades.other, top = bottom - filled * width + x, middle = top + above * width;
    for (let at = top, colour = colours[other[x]]; at < middle; at += width) pixels[at] = colour;
    for (let at = middle, colour = colours[kernel[x]]; at < bottom; at += width) pixels[at] = colour;
  }
}

function paintStrip() {
  const width = strip.width, scale = width / (view.to - view.from);
  const shades = shadesOf();
  let row = 0;
  sheet.pixels.fill(sheet.colours.ground);
  for (const { kind, lane } of sheet.rows) {
    if (kind !== "lane") continue;
    collectLane(lane, width, scale);
    paintCells(row++, width, shades);
  }
  stripPaper.putImageData(sheet.image, 0, 0);
}

/* ---- drawing on top of the lanes ---- */

const xOf = ns => LEFT + (ns - view.from) * (sheet.width - LEFT) / (view.to - view.from);
const inside = x => Math.max(LEFT, Math.min(sheet.width, x));

function drawAxis() {
  const step = niceStep((view.to - view.from) / Math.max(2, (sheet.width - LEFT) / 110));
  paper.font = "11px system-ui";
  paper.textBaseline = "alphabetic";
  for (let at = Math.ceil(view.from / step) * step; at < view.to; at += step) {
    const x = xOf(at);
    paper.fillStyle = sheet.colours.line;
    paper.fillRect(x, 4, 1, sheet.height);
    paper.fillStyle = sheet.colours.dim;
    paper.fillText(moment(at, step), x + 3, 12);
  }
}

function drawNames() {
  let below = -Infinity;
  paper.font = "11px system-ui";
  paper.textBaseline = "middle";
  for (const row of sheet.rows) {
    const y = row.y + row.height / 2;
    paper.fillStyle = row.kind === "lane" ? sheet.colours.ink : sheet.colours.dim;
    if (row.kind === "group") paper.fillText((closed.has(row.group) ? "▸ " : "▾ ") + row.name, 4, y);
    else if (y - below >= 11) { paper.fillText(row.name, 6, y, row.kind === "lane" ? LEFT - 10 : 300); below = y; }
  }
}

/* Draws borders between slices and the names of their kernels, for slices that are wide enough. */
function drawSlices(row) {
  const perPixel = (view.to - view.from) / (sheet.width - LEFT);
  const low = firstAbove(run.end, run.laneAt[row.lane], run.laneAt[row.lane + 1], view.from);
  const high = firstAbove(run.begin, low, run.laneAt[row.lane + 1], view.to);
  if (high - low > (sheet.width - LEFT) / 3) return;
  for (let i = low; i < high; i++) {
    if (run.end[i] - run.begin[i] < 3 * perPixel) continue;
    const x0 = inside(xOf(run.begin[i])), x1 = inside(xOf(run.end[i]));
    paper.fillStyle = sheet.colours.page;
    paper.fillRect(x1 - .8, row.y, .8, row.height);
    if (x1 - x0 < 34 || row.height < 10) continue;
    paper.fillStyle = "#fff";
    paper.fillText(meta.kernels[run.kernel[i]].name, x0 + 4, row.y + row.height / 2 + .5, x1 - x0 - 8);
  }
}

let rowOfLane = new Map();
function placeOfTask(t) {
  const i = run.sliceOf[t];
  const row = i === NONE ? undefined : rowOfLane.get(laneOfSlice(i));
  return row && { y: row.y, height: row.height, begin: xOf(run.start[t]), end: xOf(run.finish[t]) };
}
const laneOfSlice = i => firstAbove(run.laneAt, 0, run.laneAt.length, i) - 1;

/* Draws a line from the end of one task to the begin of another. */
function drawLink(from, to, colour, width) {
  const a = placeOfTask(from), b = placeOfTask(to);
  if (!a || !b || b.begin < LEFT || a.end > sheet.width) return;
  paper.strokeStyle = colour;
  paper.lineWidth = width;
  paper.beginPath();
  paper.moveTo(a.end, a.y + a.height / 2);
  paper.lineTo(b.begin, b.y + b.height / 2);
  paper.stroke();
}

function drawPath() {
  const LINKS_MAX = 400;
  const low = firstAbove(pathEnds(), 0, run.path.length, view.from);
  const high = firstAbove(pathBegins(), low, run.path.length, view.to);
  if (high - low > LINKS_MAX) return;
  for (let i = Math.max(1, low); i <= high && i < run.path.length; i++)
    drawLink(run.path[i - 1], run.path[i], sheet.colours.hot, 1.5);
}

let pathTimes = null;
function pathArrays() {
  if (pathTimes === null)
    pathTimes = { begin: Float64Array.from(run.path, t => run.start[t]), end: Float64Array.from(run.path, t => run.finish[t]) };
  return pathTimes;
}
const pathBegins = () => pathArrays().begin;
const pathEnds = () => pathArrays().end;

function drawSelected() {
  const t = view.selected;
  if (t === NONE) return;
  for (const { task } of predecessorsOf(t)) drawLink(task, t, task === run.readyBy[t] ? sheet.colours.hot : sheet.colours.dim, 1.5);
  for (const { task } of successorsOf(t)) drawLink(t, task, sheet.colours.dim, 1);
  paper.strokeStyle = sheet.colours.ink;
  paper.lineWidth = 2;
  for (const row of sheet.rows) {
    if (row.kind !== "lane") continue;
    const low = firstAbove(run.end, run.laneAt[row.lane], run.laneAt[row.lane + 1], run.start[t] - 1);
    for (let i = low; i < run.laneAt[row.lane + 1] && run.begin[i] <= run.finish[t]; i++) {
      if (run.task[i] !== t) continue;
      const x0 = inside(xOf(run.begin[i])), x1 = inside(xOf(run.end[i]));
      paper.strokeRect(x0, row.y, Math.max(3, x1 - x0), row.height);
    }
  }
}

function draw() {
  if (sheet.width <= LEFT + 1) return; /* the chart is hidden */
  if (sheet.colours === null) readColours();
  paper.fillStyle = sheet.colours.page;
  paper.fillRect(0, 0, sheet.width, sheet.height);
  drawAxis();
  paintStrip();
  paper.imageSmoothingEnabled = false;
  let strip0 = 0;
  rowOfLane = new Map();
  for (const row of sheet.rows) {
    if (row.kind !== "lane") continue;
    paper.drawImage(strip, 0, strip0, strip.width, sheet.cells, LEFT, row.y, strip.width, row.height - (row.height > 9 ? 1 : 0));
    strip0 += sheet.cells;
    rowOfLane.set(row.lane, row);
  }
  drawNames();
  for (const row of sheet.rows) if (row.kind === "lane") drawSlices(row);
  if (view.isPath) drawPath();
  drawSelected();
  drawOverview();
}

let isAsked = false;
function askForFrame() {
  if (isAsked) return;
  isAsked = true;
  requestAnimationFrame(() => { isAsked = false; draw(); });
}

/* ---- the overview: how many cores of each kind are busy ---- */

const over = byId("overview"), overPaper = over.getContext("2d", { alpha: false });
const overPicture = document.createElement("canvas"), overview = { width: 0, height: 0, shares: null, colours: null };
const overviewKinds = [...new Set(meta.lanes.filter(lane => lane.count > 0).map(lane => lane.kind))].slice(0, 3);

function resizeOverview(scale) {
  const width = Math.max(0, over.clientWidth - LEFT);
  if (overview.width !== width) overview.shares = null;
  Object.assign(overview, { width, height: over.clientHeight, colours: null });
  for (const each of [over, overPicture]) {
    each.width = over.clientWidth * scale;
    each.height = overview.height * scale;
    each.getContext("2d").setTransform(scale, 0, 0, scale, 0, 0);
  }
}

function collectOverview(width) {
  const scale = width / meta.span;
  return overviewKinds.map(kind => {
    const share = new Float32Array(width + 1);
    let lanes = 0;
    meta.lanes.forEach((lane, l) => {
      if (lane.kind !== kind) return;
      lanes++;
      const blocks = run.slices > 200000 ? levels[1] : run;
      for (let q = blocks.laneAt[l]; q < blocks.laneAt[l + 1]; q++) {
        const x0 = blocks.begin[q] * scale, x1 = Math.max(x0 + 1e-6, blocks.end[q] * scale);
        const density = blocks === run ? 1 : blocks.busy[q] * scale / (x1 - x0);
        for (let x = x0 | 0; x < x1 && x < width; x++) share[x] += (Math.min(x1, x + 1) - Math.max(x0, x)) * density;
      }
    });
    return share.map(busy => busy / lanes);
  });
}

/* All but the frame, which moves. */
function drawOverPicture() {
  const { width, height } = overview, part = height / Math.max(1, overviewKinds.length), ink = overPicture.getContext("2d");
  if (overview.shares === null) overview.shares = collectOverview(width);
  overview.colours = sheet.colours;
  ink.fillStyle = sheet.colours.page;
  ink.fillRect(0, 0, LEFT + width, height);
  ink.font = "11px system-ui";
  ink.textBaseline = "middle";
  overviewKinds.forEach((kind, at) => {
    const bottom = (at + 1) * part - 1, share = overview.shares[at];
    ink.fillStyle = sheet.colours.dim;
    ink.fillText(kind + " busy", 6, bottom - part / 2 + 1);
    ink.fillStyle = "#" + ["6b8fb8", "6fb06a", "b39b4a"][at];
    for (let x = 0; x < width; x++) {
      const tall = Math.min(1, share[x]) * (part - 3);
      ink.fillRect(LEFT + x, bottom - tall, 1, tall);
    }
  });
}

function drawOverview() {
  const { width, height } = overview;
  if (width === 0) return;
  if (overview.colours !== sheet.colours) drawOverPicture();
  overPaper.drawImage(overPicture, 0, 0, LEFT + width, height);
  overPaper.strokeStyle = sheet.colours.ink;
  overPaper.strokeRect(LEFT + view.from / meta.span * width + .5, .5, Math.max(2, (view.to - view.from) / meta.span * width - 1), height - 1);
}

/* ---- moving and zooming the view ---- */

function look(from, to) {
  const size = Math.min(meta.span, Math.max(20, to - from));
  view.from = Math.max(0, Math.min(meta.span - size, from));
  view.to = view.from + size;
  askForFrame();
}

function zoom(factor, at) {
  const middle = view.from + (view.to - view.from) * at, size = Math.min(meta.span, Math.max(20, (view.to - view.from) * factor));
  look(middle - size * at, middle + size * (1 - at));
}

function pan(share) {
  const size = view.to - view.from;
  look(view.from + share * size, view.to + share * size);
}

/* ---- mouse ---- */

function rowAt(y) {
  return sheet.rows.find(row => y >= row.y && y < row.y + row.height);
}

function sliceAt(event) {
  const row = rowAt(event.offsetY);
  if (!row || row.kind !== "lane" || event.offsetX < LEFT) return NONE;
  const perPixel = (view.to - view.from) / (sheet.width - LEFT), at = view.from + (event.offsetX - LEFT) * perPixel;
  const last = run.laneAt[row.lane + 1], i = firstAbove(run.end, run.laneAt[row.lane], last, at - perPixel);
  return i < last && run.begin[i] <= at + perPixel ? i : NONE;
}

let drag = null;
canvas.addEventListener("wheel", event => {
  event.preventDefault();
  if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) pan((event.deltaX || event.deltaY) / 900);
  else zoom(Math.exp(event.deltaY * .0016), Math.max(0, (event.offsetX - LEFT) / (sheet.width - LEFT)));
}, { passive: false });

canvas.addEventListener("pointerdown", event => {
  drag = { x: event.offsetX, from: view.from, to: view.to, hasMoved: false };
  canvas.setPointerCapture(event.pointerId);
});

canvas.addEventListener("pointerup", event => {
  const row = rowAt(event.offsetY);
  if (drag && !drag.hasMoved && row && row.kind === "group") {
    closed.has(row.group) ? closed.delete(row.group) : closed.add(row.group);
    resize();
    askForFrame();
  } else if (drag && !drag.hasMoved) {
    const i = sliceAt(event);
    select(i === NONE ? NONE : run.task[i]);
  }
  drag = null;
});

canvas.addEventListener("pointermove", event => {
  const tip = byId("tip");
  if (drag) {
    const moved = event.offsetX - drag.x, by = moved / (sheet.width - LEFT) * (drag.to - drag.from);
    if (Math.abs(moved) > 3) drag.hasMoved = true;
    look(drag.from - by, drag.to - by);
    return;
  }
  const i = sliceAt(event);
  tip.style.display = i === NONE ? "none" : "block";
  if (i === NONE) return;
  tip.innerHTML = describeSlice(i);
  tip.style.left = Math.min(event.clientX + 14, innerWidth - 320) + "px";
  tip.style.top = Math.min(event.clientY + 14, innerHeight - 110) + "px";
});
canvas.addEventListener("pointerleave", () => { byId("tip").style.display = "none"; });

over.addEventListener("pointerdown", event => {
  const move = e => {
    const at = (e.offsetX - LEFT) / Math.max(1, overview.width) * meta.span, half = (view.to - view.from) / 2;
    look(at - half, at + half);
  };
  move(event);
  over.onpointermove = e => { if (e.buttons) move(e); else over.onpointermove = null; };
});
