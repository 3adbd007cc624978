/* SPDX-License-Identifier: Apache-2.0 */
/* The results that are shown as texts and tables. */

/*
 * Makes a table that is sorted by the column whose heading was clicked. A column is { name, of: row => value, show: row
 * => HTML, isText }. `go` returns the task that a click on a row shows, or NONE.
 */
function sortedTable(place, columns, rows, by, go) {
  let column = by, isDown = true;
  const show = () => {
    const of = columns[column].of;
    rows.sort((a, b) => (of(a) < of(b) ? -1 : of(a) > of(b) ? 1 : 0) * (isDown ? -1 : 1));
    const head = columns.map((c, i) => `<th${c.isText ? ' class="text"' : ""} aria-sort="${i !== column ? "none" : isDown ? "descending" : "ascending"}">` +
      `<button data-column="${i}">${c.name}${i !== column ? "" : isDown ? " ▾" : " ▴"}</button></th>`).join("");
    const line = row => {
      const task = go ? go(row) : NONE;
      return `<tr${task === NONE ? "" : ` data-go="${task}" tabindex="0"`}>` +
        columns.map(c => `<td${c.isText ? ' class="text"' : ""}>${c.show(row)}</td>`).join("") + "</tr>";
    };
    place.innerHTML = `<div class="scroll"><table><thead><tr>${head}</tr></thead><tbody>${rows.map(line).join("")}</tbody></table></div>`;
    for (const button of place.querySelectorAll("th button"))
      button.onclick = () => {
        const next = +button.dataset.column;
        isDown = next === column ? !isDown : !columns[next].isText;
        column = next;
        show();
        place.querySelectorAll("th button")[next].focus();
      };
  };
  show();
}

const plainTable = (head, rows) => rows.length === 0 ? "" : `<div class="scroll"><table><thead><tr>${head.map((c, i) =>
  `<th${i ? "" : ' class="text"'}>${c}</th>`).join("")}</tr></thead><tbody>${rows.map(r => `<tr${r.go === undefined ? "" :
  ` data-go="${r.go}" tabindex="0"`}>${r.cells.map((c, i) => `<td${i ? "" : ' class="text"'}>${c}</td>`).join("")}</tr>`).join("")}</tbody></table></div>`;

const changeCell = share => `<span class="${rounded(share) > 0 ? "worse" : rounded(share) < 0 ? "better" : ""}">${change(share)}</span>`;

function showHead() {
  document.title = meta.title + ": pto report";
  byId("title").textContent = meta.title + " · " + meta.about;
  byId("verdict").textContent = meta.verdict || "";
  byId("notes").textContent = meta.notes.join(" ");
  byId("tiles").innerHTML = meta.tiles.map(([name, value]) => `<div><b>${html(value)}</b>${html(name)}</div>`).join("");
  byId("foot").textContent = meta.foot;
}

function showLegend() {
  const LEGEND_MAX = 24;
  byId("legend").innerHTML = meta.kernels.map((kernel, k) => ({ kernel, k })).filter(x => x.kernel.total > 0)
    .sort((a, b) => b.kernel.total - a.kernel.total).slice(0, LEGEND_MAX).map(({ kernel, k }) =>
      `<button data-kernel="${k}" aria-pressed="false" title="show only this one">${swatch(k)}${html(fullName(kernel))}</button>`).join("");
  for (const button of byId("legend").querySelectorAll("button"))
    button.onclick = () => {
      const kernel = +button.dataset.kernel;
      view.kernel = view.kernel === kernel ? NONE : kernel;
      for (const other of byId("legend").querySelectorAll("button")) other.setAttribute("aria-pressed", +other.dataset.kernel === view.kernel);
      askForFrame();
    };
}

function showWhatIf() {
  if (!meta.whatif) { byId("whatif-section").hidden = true; return; }
  const rows = meta.whatif.map(r => ({ cells: [html(r.change), time(r.span), changeCell(r.difference)] }));
  byId("whatif").innerHTML = plainTable(["if", "the run would take", "difference"], rows) + `<p class="dim">${html((meta.whatifGroup ? `About ${meta.whatifGroup}. ` : "") + meta.whatifNote)}</p>`;
}

const REASON_COLOURS = ["#54a24b", "#e45756", "#f58518", "#c9a227", "#b279a2", "#8d99a6", "#4c78a8", "#72b7b2", "#9d755d"];

function showIdle() {
  const bars = meta.idle.map(({ name, parts }) => `<div>${html(name)}</div><div class="bar">` + parts.map((part, i) => part <= 0 ? "" :
    `<i title="${html(meta.reasons[i])}: ${percent(part)}" style="width:${100 * part}%;background:${REASON_COLOURS[i]}">${part > .06 ? percent(part) : ""}</i>`).join("") + "</div>");
  const rows = meta.reasons.map((reason, i) => ({ i, cells: [`<span class="swatch" style="background:${REASON_COLOURS[i]}"></span>${html(reason)}`,
    ...meta.idle.map(kind => percent(kind.parts[i]))] })).filter(row => meta.idle.some(kind => kind.parts[row.i] > 0));
  byId("idle").innerHTML = meta.idle.length === 0 ? '<p class="dim">No core executed anything.</p>' :
    bars.join("") + plainTable(["time of all cores", ...meta.idle.map(kind => html(kind.name))], rows);
}

function kernelColumns() {
  const columns = [
    { name: "kernel", of: r => r.name, show: r => swatch(r.index) + html(r.name), isText: true },
    ...meta.kernels.some(kernel => kernel.core) ? [{ name: "core", of: r => r.core, show: r => html(r.core), isText: true }] : [],
    { name: "count", of: r => r.count, show: r => count(r.count) },
    { name: "total", of: r => r.total, show: r => time(r.total) },
    { name: "share", of: r => r.share, show: r => percent(r.share) },
    { name: "median", of: r => r.median, show: r => time(r.median) },
    { name: "p99", of: r => r.p99, show: r => time(r.p99) },
    { name: "longest", of: r => r.longest, show: r => time(r.longest) },
    { name: "on the path", of: r => r.path, show: r => percent(r.path) },
  ];
  if (meta.kernels.some(kernel => kernel.half !== undefined))
    columns.push({ name: "2× as fast", of: r => r.half ?? 0, show: r => r.half === undefined ? "" : changeCell(r.half) });
  if (meta.kernels.some(kernel => kernel.was !== undefined))
    columns.push({ name: "median before", of: r => r.was ?? 0, show: r => r.was === undefined ? "new" : time(r.was) },
      { name: "difference", of: r => r.was ? r.median / r.was - 1 : 0, show: r => r.was ? changeCell(r.median / r.was - 1) : "" });
  return columns;
}

function longestOf() {
  const longest = new Int32Array(meta.kernels.length).fill(NONE);
  for (let i = 0; i < run.slices; i++) {
    const k = run.kernel[i];
    if (longest[k] === NONE || run.end[i] - run.begin[i] > run.end[longest[k]] - run.begin[longest[k]]) longest[k] = i;
  }
  return longest;
}

function showKernels() {
  const longest = longestOf();
  const rows = meta.kernels.map((kernel, index) => ({ ...kernel, index, task: longest[index] === NONE ? NONE : run.task[longest[index]],
    longest: longest[index] === NONE ? 0 : run.end[longest[index]] - run.begin[longest[index]] }));
  const columns = kernelColumns();
  sortedTable(byId("kernels"), columns, rows.filter(row => row.count > 0), columns.findIndex(c => c.name === "total"), row => row.task);
}

/*
 * Computes for each kernel: how many of its tasks are on the critical path, how long they ran, and how long the path
 * waited before them.
 */
function pathByKernel() {
  const rows = meta.kernels.map((kernel, index) => ({ name: kernel.name, index, count: 0, ran: 0, share: 0, waited: 0, task: NONE, longest: -1 }));
  /* separate ends for each group, because a worker and its chips have separate critical paths */
  const lastOf = new Float64Array(meta.groups.length);
  for (const t of run.path) {
    const group = meta.lanes[laneOfSlice(run.sliceOf[t])].group, last = lastOf[group];
    const row = rows[kernelOfTask(t)], begin = Math.max(last, run.start[t]), ran = Math.max(0, run.finish[t] - begin);
    row.count++;
    row.ran += ran;
    row.share += ran / meta.groupSpans[group];
    row.waited += Math.max(0, run.start[t] - last);
    if (ran > row.longest) { row.longest = ran; row.task = t; }
    lastOf[group] = Math.max(last, run.finish[t]);
  }
  return rows.filter(row => row.count > 0);
}

function showPath() {
  const rows = pathByKernel();
  sortedTable(byId("path"), [
    { name: "kernel", of: r => r.name, show: r => swatch(r.index) + html(r.name), isText: true },
    { name: "tasks", of: r => r.count, show: r => count(r.count) },
    { name: "ran", of: r => r.ran, show: r => time(r.ran) },
    { name: "of the run", of: r => r.share, show: r => percent(r.share) },
    { name: "waited before", of: r => r.waited, show: r => time(r.waited) },
    { name: "longest", of: r => r.longest, show: r => time(r.longest) },
  ], rows, 2, row => row.task);
  /* the sum of all steps of the critical path is the duration of the run */
  const whole = meta.pathKinds.reduce((sum, kind) => sum + kind.total, 0);
  const kinds = meta.pathKinds.filter(kind => kind.total > 0).map(kind => `${html(kind.name)} ${time(kind.total)} (${percent(kind.total / Math.max(1, whole))})`);
  const causes = meta.pathCauses.filter(cause => cause.count > 0).map(cause => `${count(cause.count)} for ${html(cause.name)}`);
  byId("path").insertAdjacentHTML("beforeend", `<p class="dim">` + (meta.workerPath ? `${html(meta.workerPath)}. ` :
    `${plural(run.path.length, "task")} in a row made this run as long as it is: ${kinds.join(", ")}. They waited: ${causes.join(", ")}. `) +
    "Click a row for its longest task.</p>");
}

/* Shows for each source line the tasks that it submitted. */
function showSites() {
  const SITES_MAX = 40, rows = meta.sites.map((site, s) => ({ ...site, s, count: 0, total: 0, path: 0, task: NONE, longest: -1 }));
  for (let t = 0; t < run.tasks; t++) {
    const row = rows[run.site[t]], long = run.sliceOf[t] === NONE ? 0 : run.finish[t] - run.start[t];
    if (!row) continue;
    row.count++;
    row.total += long;
    if (run.onPath[t]) row.path += long / meta.groupSpans[meta.lanes[laneOfSlice(run.sliceOf[t])].group];
    if (long > row.longest) { row.longest = long; row.task = t; }
  }
  const known = rows.filter(row => row.file && row.count > 0).sort((a, b) => b.total - a.total).slice(0, SITES_MAX);
  if (known.length === 0) { byId("sites").innerHTML = '<p class="dim">The recording has no lines: it was made without them.</p>'; return; }
  sortedTable(byId("sites"), [
    { name: "line", of: r => r.file + String(r.line).padStart(9), show: r => describeSite(r) + (r.text ? `<br><code>${html(r.text)}</code>` : ""), isText: true },
    { name: "tasks", of: r => r.count, show: r => count(r.count) },
    { name: "time", of: r => r.total, show: r => time(r.total) },
    { name: "on the path", of: r => r.path, show: r => percent(r.path) },
  ], known, 3, row => row.task);
}

function showCompare() {
  if (!meta.other) return;
  byId("compare-section").hidden = false;
  const rows = meta.other.rows.map(r => ({ cells: [html(r.name), html(r.before), html(r.now), r.difference === null ? "" : changeCell(r.difference), html(r.note)] }));
  byId("compare").innerHTML = `<p><b>${html(meta.other.verdict)}</b></p>` +
    plainTable(["", html(meta.other.title === meta.title ? "the other run" : meta.other.title), "this run", "difference", ""], rows);
}
