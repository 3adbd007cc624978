/* SPDX-License-Identifier: Apache-2.0 */
/* Handles buttons and keys, and the opening, resizing and printing of the page. */
const KEYS = {
  w: () => zoom(.7, zoomPlace()), s: () => zoom(1.4, zoomPlace()), a: () => pan(-.15), d: () => pan(.15),
  ArrowUp: () => zoom(.7, zoomPlace()), ArrowDown: () => zoom(1.4, zoomPlace()), ArrowLeft: () => pan(-.15), ArrowRight: () => pan(.15),
  0: () => look(0, meta.span), c: () => togglePath(), "[": () => stepOnPath(-1), "]": () => stepOnPath(1),
  p: () => { if (view.selected !== NONE && run.readyBy[view.selected] !== NONE) goTo(run.readyBy[view.selected]); },
  "/": () => byId("find").focus(), Escape: () => select(NONE),
};

/*
 * Returns the position that stays fixed when a key zooms, as a share of the view: the middle of the selected task if it
 * is visible, else the middle of the view.
 */
function zoomPlace() {
  const t = view.selected;
  if (t === NONE || run.sliceOf[t] === NONE) return .5;
  const at = ((run.start[t] + run.finish[t]) / 2 - view.from) / (view.to - view.from);
  return at >= 0 && at <= 1 ? at : .5;
}

function togglePath() {
  view.isPath = !view.isPath;
  byId("path-button").setAttribute("aria-pressed", view.isPath);
  askForFrame();
}

/*
 * Shows the task that was clicked, or selected with Enter, in a row of a table or a box of a drawing. Returns whether
 * the target names a task.
 */
function goToTarget(target) {
  const named = target.closest("[data-go]");
  if (!named) return false;
  goTo(+named.dataset.go);
  byId("tools").scrollIntoView({ block: "nearest" });
  return true;
}

function listen() {
  byId("path-button").onclick = togglePath;
  byId("step-back").onclick = () => stepOnPath(-1);
  byId("step-on").onclick = () => stepOnPath(1);
  byId("whole").onclick = () => look(0, meta.span);
  byId("find-next").onclick = () => find(byId("find").value.trim());
  addEventListener("click", event => goToTarget(event.target));
  addEventListener("keydown", event => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target === byId("find")) {
      if (event.key === "Enter") find(event.target.value.trim());
      if (event.key === "Escape") event.target.blur();
      return;
    }
    if (event.key === "Enter") { goToTarget(event.target); return; }
    const isLanes = event.target === canvas || !event.key.startsWith("Arrow");
    if (!KEYS[event.key] || !isLanes) return;
    event.preventDefault();
    KEYS[event.key]();
  });
  new ResizeObserver(() => { resize(); draw(); }).observe(byId("tools"));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { forgetColours(); askForFrame(); });
  addEventListener("beforeprint", () => { resize(); draw(); });
  addEventListener("afterprint", () => { resize(); draw(); });
}

async function open() {
  showHead();
  await readRecording();
  resize();
  draw();
  const isShown = performance.now();
  showLegend();
  showWhatIf();
  showIdle();
  showCompare();
  showKernels();
  showPath();
  showSites();
  showGraph();
  showLive();
  showMemory();
  listen();
  window.report = { run, meta, view, goTo, find, look, shownAfter: isShown, readyAfter: performance.now() };
}

open().catch(error => { byId("verdict").textContent = "This report cannot be shown: " + error.message; });
