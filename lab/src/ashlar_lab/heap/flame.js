"use strict";
// The flame graph: callers above, what they call below. A node is [name, live, allocated, live samples, allocated samples, below].
(() => {
  const { names, period, root } = JSON.parse(document.getElementById("graph").textContent);
  const flame = document.getElementById("flame"), tip = document.getElementById("tip"), told = document.getElementById("told");
  const search = document.getElementById("search"), matched = document.getElementById("matched"), reset = document.getElementById("reset");
  const ROW = 20, THINNEST = 0.6, NAME = 0, BELOW = 5;
  let measure = 1; // where in a node its bytes stand: 1 live, 2 allocated
  let zoomed = root, current = root, query = "";
  const caller = new Map();
  (function note(node) { for (const below of node[BELOW]) { caller.set(below, node); note(below); } })(root);

  const UNITS = [["GiB", 2 ** 30], ["MiB", 2 ** 20], ["KiB", 2 ** 10], ["bytes", 1]];
  function memory(bytes) {
    const [unit, size] = UNITS.find(([, size]) => bytes >= size) || UNITS[3];
    const value = bytes / size;
    return `${value.toFixed(value >= 100 || size === 1 ? 0 : value >= 10 ? 1 : 2)} ${unit}`;
  }
  // No sample adds more than period² to the variance, so this is at most the half-width of the 95 % interval.
  const error = (samples) => 1.96 * period * Math.sqrt(samples);
  const label = (node) => node === root ? "everything" : names[node[NAME]][0];
  const place = (node) => node === root ? "" : names[node[NAME]][1];
  const origin = (node) => node === root ? "all" : names[node[NAME]][2];
  const text = (node) => `${label(node)}${origin(node) === "class" || !place(node) ? "" : `  ${place(node).split("/").pop()}`}`;
  const share = (part, whole) => whole ? `${(100 * part / whole).toFixed(1)} %` : "–";

  function describe(node) {
    const lines = [label(node) + (place(node) ? ` — ${place(node)}` : "")];
    for (const [at, word] of [[1, "live"], [2, "allocated"]]) {
      const samples = node[at + 2];
      lines.push(`${word}: ${memory(node[at])} ± ${memory(error(samples))} (${share(node[at], root[at])} of all, ${samples} sample${samples === 1 ? "" : "s"})`);
    }
    return lines;
  }

  function path(node) {
    const found = [];
    for (; node; node = caller.get(node)) found.unshift(node);
    return found;
  }

  const matches = (node) => query && node !== root && `${label(node)} ${place(node)}`.toLowerCase().includes(query);
  // Bytes below the outermost matches, so that nothing is counted twice.
  function bytesMatched(node) {
    return matches(node) ? node[measure] : node[BELOW].reduce((sum, below) => sum + bytesMatched(below), 0);
  }

  function draw() {
    const width = flame.clientWidth, above = path(zoomed).slice(0, -1), boxes = [];
    let depth = 0;
    for (const node of above) boxes.push([node, 0, width, depth++, true]);
    (function place(node, x, wide, row) {
      if (wide < THINNEST) return;
      boxes.push([node, x, wide, row, false]);
      const bytes = node[measure];
      if (!bytes) return;
      const order = [...node[BELOW]].sort((a, b) => b[measure] - a[measure]);
      for (const below of order) {
        const part = wide * below[measure] / bytes;
        place(below, x, part, row + 1);
        x += part;
      }
    })(zoomed, 0, width, depth);
    const rows = Math.max(...boxes.map((box) => box[3])) + 1;
    flame.style.height = `${rows * ROW + 2}px`;
    flame.classList.toggle("searched", Boolean(query));
    if (!boxes.some(([node]) => node === current)) current = zoomed;
    flame.replaceChildren(...boxes.map(([node, x, wide, row, isAbove]) => {
      const box = document.createElement("div");
      box.className = `${origin(node)}${isAbove ? " above" : ""}${matches(node) ? " hit" : ""}${wide < 12 ? " thin" : ""}`;
      box.style.cssText = `left:${x.toFixed(2)}px;top:${row * ROW}px;width:${Math.max(wide - 0.6, 0.4).toFixed(2)}px`;
      if (wide >= 12) box.textContent = text(node);
      box.setAttribute("role", "treeitem");
      box.setAttribute("aria-level", row + 1);
      box.setAttribute("aria-label", describe(node).join("; "));
      box.tabIndex = node === current ? 0 : -1;
      box.node = node;
      return box;
    }));
    reset.disabled = zoomed === root && !query;
    const found = query ? bytesMatched(root) : 0;
    matched.textContent = query ? `matches: ${memory(found)}, ${share(found, root[measure])}` : "";
    say(current);
  }

  function say(node) { told.textContent = describe(node).join("; "); }
  const boxOf = (node) => [...flame.children].find((box) => box.node === node);
  function focus(node) {
    if (!node || !boxOf(node)) return;
    for (const box of flame.children) box.tabIndex = box.node === node ? 0 : -1;
    current = node;
    boxOf(node).focus();
    say(node);
  }
  function zoom(node, keepsFocus) {
    zoomed = current = node;
    tip.hidden = true;
    draw();
    if (keepsFocus) focus(node);
  }
  function setMeasure(at) {
    measure = at;
    document.querySelectorAll("input[name=measure]").forEach((input) => { input.checked = (input.value === "live") === (at === 1); });
    document.querySelectorAll("table.ranked tbody").forEach((body) => {
      const key = at === 1 ? "live" : "allocated";
      body.append(...[...body.rows].sort((a, b) => b.dataset[key] - a.dataset[key]));
    });
    draw();
  }

  flame.addEventListener("click", (event) => { if (event.target.node) zoom(event.target.node, true); });
  flame.addEventListener("focusin", (event) => { if (event.target.node) { current = event.target.node; say(current); } });
  flame.addEventListener("mousemove", (event) => {
    const node = event.target.node;
    tip.hidden = !node;
    if (!node) return;
    tip.replaceChildren(...describe(node).map((line, i) => {
      const part = document.createElement(i ? "div" : "strong");
      part.textContent = line;
      return part;
    }));
    const box = tip.getBoundingClientRect();
    tip.style.left = `${Math.max(4, Math.min(event.clientX + 14, innerWidth - box.width - 8))}px`;
    tip.style.top = `${event.clientY + 20 + box.height > innerHeight ? event.clientY - box.height - 10 : event.clientY + 20}px`;
  });
  flame.addEventListener("mouseleave", () => { tip.hidden = true; });
  flame.addEventListener("keydown", (event) => {
    const shown = new Set([...flame.children].map((box) => box.node));
    const beside = (step) => {
      const up = caller.get(current);
      if (!up) return null;
      const row = [...up[BELOW]].sort((a, b) => b[measure] - a[measure]).filter((node) => shown.has(node));
      return row[row.indexOf(current) + step];
    };
    const moves = {
      ArrowUp: () => focus(caller.get(current)),
      ArrowDown: () => focus([...current[BELOW]].sort((a, b) => b[measure] - a[measure])[0]),
      ArrowLeft: () => focus(beside(-1)), ArrowRight: () => focus(beside(1)),
      Enter: () => zoom(current, true), " ": () => zoom(current, true), Home: () => zoom(root, true),
    };
    if (moves[event.key]) { event.preventDefault(); moves[event.key](); }
  });
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const typing = event.target === search;
    if (event.key === "Escape") { search.value = query = ""; if (typing) search.blur(); zoom(root, !typing && flame.contains(event.target)); }
    else if (event.key === "/" && !typing) { event.preventDefault(); search.focus(); }
    else if (event.key === "m" && !typing) setMeasure(measure === 1 ? 2 : 1);
  });
  search.addEventListener("input", () => { query = search.value.trim().toLowerCase(); draw(); });
  reset.addEventListener("click", () => { search.value = query = ""; zoom(root, false); });
  document.querySelectorAll("input[name=measure]").forEach((input) =>
    input.addEventListener("change", () => setMeasure(input.value === "live" ? 1 : 2)));
  addEventListener("resize", draw);
  setMeasure(root[1] ? 1 : 2);
})();
