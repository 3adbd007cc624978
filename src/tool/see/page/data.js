/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The recording as typed arrays. The page has one data element with all columns of integers, each split into planes of
 * bytes; all planes are compressed together and written as base64. `meta.columns` lists the columns in order. There is
 * no JavaScript object per slice.
 */
const meta = JSON.parse(byId("meta").textContent);

/*
 * Columns of slices, sorted by lane and begin, and of tasks in submit order. `edgeAt[t]` is the index of the first edge
 * into task t.
 */
const run = { slices: meta.slices, tasks: meta.tasks };
const NONE = -1;

function fromBase64(text) {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text);
  const raw = atob(text), out = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i++) out[i] = raw.charCodeAt(i);
  return out;
}

async function inflate(packed) {
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/*
 * Joins the planes of one column: `planes` bytes for each number, the lowest first. More than four bytes do not fit the
 * integers of JavaScript's bit operations, so such a column becomes doubles.
 */
function joinPlanes(raw, at, length, planes) {
  if (planes === 1) return raw.subarray(at, at + length);
  const out = planes > 4 ? new Float64Array(length) : new Uint32Array(length);
  for (let plane = 0; plane < planes; plane++) {
    const low = at + plane * length, scale = 2 ** (8 * plane);
    if (planes > 4) for (let i = 0; i < length; i++) out[i] += raw[low + i] * scale;
    else for (let i = 0, shift = 8 * plane; i < length; i++) out[i] |= raw[low + i] << shift;
  }
  return out;
}

function readColumns(raw) {
  const columns = {};
  let at = 0;
  for (const { name, length, planes } of meta.columns) {
    columns[name] = joinPlanes(raw, at, length, planes);
    at += length * planes;
  }
  return columns;
}

/*
 * Reverses the encoding of 0, -1, 1, -2, … as 0, 1, 2, 3, …. Uses a division instead of a shift, because numbers may
 * have more than 32 bits.
 */
const unzigzag = n => n % 2 ? -(n + 1) / 2 : n / 2;

function decodeSlices(columns) {
  const { gap, duration, step, kernel, block } = columns, n = run.slices;
  Object.assign(run, { kernel, block, begin: new Float64Array(n), end: new Float64Array(n), task: new Uint32Array(n),
    hot: new Uint8Array(n), laneAt: new Uint32Array(meta.lanes.length + 1) });
  let i = 0;
  meta.lanes.forEach((lane, l) => {
    let now = 0, task = 0;
    run.laneAt[l] = i;
    for (const last = i + lane.count; i < last; i++) {
      run.begin[i] = now + unzigzag(gap[i]);
      now = run.end[i] = run.begin[i] + duration[i];
      task += unzigzag(step[i]);
      run.task[i] = task;
    }
  });
  run.laneAt[meta.lanes.length] = i;
}

/* Computes the first slice, the begin and the end of each task from its slices. */
function decodeExtents() {
  const n = run.tasks, sliceOf = new Int32Array(n).fill(NONE);
  const start = new Float64Array(n).fill(Infinity), finish = new Float64Array(n).fill(-Infinity);
  for (let i = 0; i < run.slices; i++) {
    const t = run.task[i];
    if (run.begin[i] < start[t]) { start[t] = run.begin[i]; sliceOf[t] = i; }
    if (run.end[i] > finish[t]) finish[t] = run.end[i];
  }
  Object.assign(run, { sliceOf, start, finish });
}

/*
 * Computes when each task became ready: at its submit, or at the end of the predecessor that made it ready, whichever
 * is later, plus the delay in the column `late`.
 */
function decodeTasks(columns) {
  const n = run.tasks, { submitStep, by, late } = columns;
  const submit = new Float64Array(n), ready = new Float64Array(n), readyBy = new Int32Array(n);
  for (let t = 0, now = 0; t < n; t++) {
    now += unzigzag(submitStep[t]);
    submit[t] = now;
    readyBy[t] = by[t] ? t - by[t] : NONE;
  }
  for (let t = 0; t < n; t++) {
    const end = readyBy[t] >= 0 ? run.finish[readyBy[t]] : -Infinity;
    ready[t] = Math.max(submit[t], end) + unzigzag(late[t]);
  }
  Object.assign(run, { submit, ready, readyBy, site: columns.site, shapes: columns.shapes, flags: columns.flags,
    onPath: columns.onPath });
  for (let i = 0; i < run.slices; i++) run.hot[i] = run.onPath[run.task[i]];
}

function decodeEdges(columns) {
  const n = run.tasks, edgeAt = new Uint32Array(n + 1), from = new Int32Array(columns.edgeStep.length);
  for (let t = 0; t < n; t++) {
    edgeAt[t + 1] = edgeAt[t] + columns.edgeCount[t];
    for (let e = edgeAt[t]; e < edgeAt[t + 1]; e++) from[e] = t - columns.edgeStep[e];
  }
  Object.assign(run, { edgeAt, edgeFrom: from, edgeReason: columns.edgeReason, edgeFromArgument: columns.edgeFromArgument,
    edgeToArgument: columns.edgeToArgument });
}

/* Lists the tasks of the critical path in the order of time. */
function decodePath() {
  const path = [];
  for (let t = 0; t < run.tasks; t++) if (run.onPath[t] && run.sliceOf[t] !== NONE) path.push(t);
  run.path = path.sort((a, b) => run.start[a] - run.start[b] || a - b);
}

/*
 * Binary search: returns the first slice in [low, high) whose `column`, begin or end, is above `at`. The slices of a
 * lane are sorted by begin as well as by end.
 */
function firstAbove(column, low, high, at) {
  while (low < high) {
    const middle = (low + high) >> 1;
    if (column[middle] <= at) low = middle + 1;
    else high = middle;
  }
  return low;
}

const kernelOfTask = t => run.sliceOf[t] === NONE ? NONE : run.kernel[run.sliceOf[t]];

function nameOfTask(t) {
  const kernel = kernelOfTask(t);
  if (kernel !== NONE) return meta.kernels[kernel].name;
  return flagsOf(t)[0] || "task without a kernel";
}

const flagsOf = t => meta.flagNames.filter((_, bit) => run.flags[t] >> bit & 1);

function siteOfTask(t) {
  const site = meta.sites[run.site[t]];
  return site && site.file ? site : null;
}

/* ---- levels of detail for zooming out ---- */

/*
 * A level joins neighbouring slices of a lane to blocks of 4, 16, 64 or 256. A block has the two kernels that take most
 * of its time; the time of other kernels is added to the first one.
 */
const LEVEL_FACTOR = 4, LEVEL_COUNT = 4;
const levels = [];

function sizeLevel(lower, laneAt) {
  const at = new Uint32Array(laneAt.length);
  for (let l = 0; l + 1 < laneAt.length; l++) at[l + 1] = at[l] + Math.ceil((laneAt[l + 1] - laneAt[l]) / LEVEL_FACTOR);
  const n = at[laneAt.length - 1];
  return { laneAt: at, begin: new Float64Array(n), end: new Float64Array(n), first: new Float32Array(n), second: new Float32Array(n),
    busy: new Float32Array(n), kernel: new Uint16Array(n), other: new Uint16Array(n), hot: new Uint8Array(n) };
}

/*
 * Finds the two kernels with the largest times among a few slices. `sum`, indexed by kernel, is scratch memory that is
 * zero before and after.
 */
const shareOf = { sum: null, seen: [] };
function addShare(kernel, ns) {
  if (ns <= 0) return;
  if (shareOf.sum[kernel] === 0) shareOf.seen.push(kernel);
  shareOf.sum[kernel] += ns;
}

function takeShares(level, q) {
  const { sum, seen } = shareOf;
  let best = 0, next = 0, all = 0, bestKernel = 0, nextKernel = 0;
  for (const kernel of seen) {
    const ns = sum[kernel];
    all += ns;
    if (ns > best) { next = best; nextKernel = bestKernel; best = ns; bestKernel = kernel; }
    else if (ns > next) { next = ns; nextKernel = kernel; }
    sum[kernel] = 0;
  }
  seen.length = 0;
  level.busy[q] = all;
  level.first[q] = all - next;
  level.second[q] = next;
  level.kernel[q] = bestKernel;
  level.other[q] = nextKernel;
}

function fillLevel(level, lower) {
  const isSlices = lower === run;
  for (let l = 0; l < meta.lanes.length; l++) {
    let q = level.laneAt[l];
    for (let i = lower.laneAt[l]; i < lower.laneAt[l + 1]; q++) {
      const last = Math.min(i + LEVEL_FACTOR, lower.laneAt[l + 1]);
      level.begin[q] = lower.begin[i];
      level.end[q] = lower.end[last - 1];
      for (; i < last; i++) {
        level.hot[q] |= lower.hot[i];
        if (isSlices) {
          addShare(lower.kernel[i], lower.end[i] - lower.begin[i]);
        } else {
          addShare(lower.kernel[i], lower.first[i]);
          addShare(lower.other[i], lower.second[i]);
        }
      }
      takeShares(level, q);
    }
  }
}

function makeLevels() {
  shareOf.sum = new Float64Array(Math.max(1, meta.kernels.length));
  let lower = run;
  for (let i = 0; i < LEVEL_COUNT; i++) {
    const level = sizeLevel(lower, lower.laneAt);
    fillLevel(level, lower);
    levels.push(level);
    lower = level;
  }
}

async function readRecording() {
  const columns = readColumns(await inflate(fromBase64(byId("data").textContent.trim())));
  decodeSlices(columns);
  decodeExtents();
  decodeTasks(columns);
  decodeEdges(columns);
  decodePath();
  makeLevels();
}
