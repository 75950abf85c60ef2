// Draws a scene of `cute_py.viz.scene` that answers the pointer and the keys: cells on a canvas,
// the cursor on one above it. Text goes through textContent alone.
const cutePy = (host, scene, options = {}) => {
  const doc = host.ownerDocument, view = doc.defaultView;
  const put = (parent, tag, css = "", props = {}) => {
    const made = Object.assign(doc.createElement(tag), props);
    made.style.cssText = css;
    return parent.appendChild(made);
  };
  const { floor, max, min } = Math;
  const MONO = "ui-monospace,monospace", WRAP = ";overflow-wrap:anywhere", INDENT = "margin-left:1em";
  host.replaceChildren();
  host.dataset.lmSuppressShortcuts = "true"; // JupyterLab leaves our keys to us
  const root = put(host, "div", "max-width:100%;font:13px/1.5 system-ui,sans-serif");

  // JupyterLab's theme, VS Code's, or the system's
  const media = view.matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => {
    const lab = doc.body.dataset.jpThemeLight;
    const code = doc.body.className.match(/vscode-(\S*light|dark|high-contrast)/);
    return lab ? lab === "false" : code ? !/light/.test(code) : media.matches;
  };
  const again = () => {
    root.style.color = isDark() ? "#e8e8e8" : "#1a1a1a";
    draw();
  };
  const watch = new view.MutationObserver(() => host.isConnected ? again() : watch.disconnect());
  watch.observe(doc.body, { attributes: true });
  media.addEventListener("change", again);
  let draw = () => {};
  again();

  const tree = (parent, node, open) => {
    const details = put(parent, "details", INDENT);
    put(details, "summary", `font-family:${MONO}${WRAP}`, { textContent: node.text });
    for (const line of node.lines) put(details, "div", INDENT + WRAP, { textContent: line });
    const inside = put(details, "div", INDENT);
    details.ontoggle = () => {
      if (details.open && node.scene && !inside.firstChild) cutePy(inside, node.scene, options);
    };
    details.open = open;
    node.operands.forEach((operand) => tree(details, operand, false));
  };
  if (scene.v !== 1) root.textContent = "This scene needs a newer cute_py.";
  else if (scene.tree) tree(root, scene.tree, true);
  if (!scene.panels || scene.v !== 1) return {};

  // elements
  put(root, "div", "font-weight:600" + WRAP, { textContent: scene.title });
  const steps = put(root, "div", "display:flex;flex-wrap:wrap;gap:2px 16px");
  const pane = put(root, "div", "overflow:auto;max-width:100%");
  const { places } = scene, wraps = places.length === 1;
  const table = put(pane, "div", wraps ? "display:flex;flex-wrap:wrap;gap:12px"
    : `display:grid;gap:0 12px;grid-template-columns:repeat(${places[0].length},max-content)`);
  const panels = scene.panels.map((panel) => ({ keys: panel.offset, ...panel, count: panel.colour.length }));
  if (scene.steps) panels.forEach((p, n) => { p.at = { Step: n }; });
  for (const at of places.flat()) {
    const box = put(table, "div"), p = panels[at];
    if (!p) continue;
    p.box = box;
    put(box, "div", "font-size:12px", { textContent: p.title });
    const stack = put(box, "div", "position:relative");
    p.base = put(stack, "canvas", "display:block");
    p.over = put(stack, "canvas", "position:absolute;left:0;top:0;cursor:crosshair", {
      tabIndex: 0,
      onpointermove: (e) => hover(p, e),
      onpointerleave: () => point(null),
      onclick: (e) => { hover(p, e); if (now) select(p, now.k); },
      onkeydown: (e) => key(p, e),
      onfocus: () => { if (now?.p !== p) point(p, 0); },
    });
    p.over.setAttribute("role", "application");
    p.over.setAttribute("aria-label", `${scene.title} ${p.title}: ${p.rows} rows, ${p.columns} columns`);
  }
  const readout = put(root, "div", `min-height:3em;font:12px/1.5 ${MONO}${WRAP}`);
  readout.setAttribute("role", "status");
  readout.textContent = `Hover or arrow keys read a cell, click or Enter selects its ${scene.link}, Escape clears, + and - zoom.`;

  // cells
  const listed = (x) => Array.isArray(x) ? x : x === null ? [] : [x];
  const numbers = (text) => text.split(",").flatMap((part) => { // 0-12/4,64
    const [, first, last = first, step = 1] = part.match(/^(\d+)(?:-(\d+)(?:\/(\d+))?)?$/);
    return Array.from({ length: (last - first) / step + 1 }, (_, i) => +first + i * step);
  });
  const place = (p, k) => p.across ? [floor(k / p.columns), k % p.columns] : [k % p.rows, floor(k / p.rows)];
  const cell = (p, i, j) => {
    const k = p.across ? i * p.columns + j : i + j * p.rows;
    return p.rows > i && i >= 0 && p.columns > j && j >= 0 && p.count > k ? k : -1;
  };
  const size = (shape) => [shape].flat(9).reduce((n, mode) => n * mode, 1);
  const coordinate = (index, shape) => Array.isArray(shape) ? shape.map((mode) => {
    const n = size(mode), own = index % n;
    index = floor(index / n);
    return coordinate(own, mode);
  }) : index;
  const show = (x) => Array.isArray(x) ? `(${x.map(show)})` : `${x}`;
  const holders = (p, k) => listed(p.thread[k]).map((set, i) =>
    `T${p.threads[set]} V${Array.isArray(p.thread[k]) ? p.value[k][i] : p.value[k]}`);
  const lines = (p, k) => {
    const { cells } = options, at = p.start + k;
    if (cells && p.offset) return [cells === "index" ? `${at}` : show(coordinate(at, p.shape.map(size)))];
    if (p.text) return p.text[k].split("\n");
    if (!p.thread) return [`${(p.offset || p.coordinate)[k]}`];
    const found = holders(p, k);
    return found.length === 1 ? found[0].split(" ") : found;
  };

  // links
  const members = (p, set) => (p.sets ||= p.threads.map(numbers))[set];
  const sets = (p, k) => listed(p.thread ? p.thread[k] : null);
  const keys = (p, k) => scene.link === "thread" ? sets(p, k).flatMap((set) => members(p, set))
    : scene.link === "element" ? [p.start + k] : listed(p.keys?.[k] ?? null);
  const indexed = (p) => {
    if (p.index) return p.index;
    const add = (map, at, x) => map.has(at) ? map.get(at).push(x) : map.set(at, [x]);
    const bySet = new Map(), index = p.index = new Map();
    for (let k = 0; k < p.count; k++) {
      if (scene.link === "thread") sets(p, k).forEach((set) => add(bySet, set, k));
      else keys(p, k).forEach((at) => add(index, at, [k]));
    }
    bySet.forEach((cells, set) => members(p, set).forEach((t) => add(index, t, cells)));
    return index;
  };
  const linked = (p, at) => (indexed(p).get(at) || []).flat();

  const facts = (p, k) => {
    const said = [], bit = p.offset && p.offset[k] * (p.bits ?? scene.bits);
    if (p.coordinate) said.push(`value ${p.coordinate[k]}`);
    if (p.offset) said.push(`offset ${p.offset[k]}`, `byte ${bit / 8}`, `bank ${floor(bit / 32) & 31}`);
    if (p.thread) said.push(holders(p, k).join("; ") || "no thread");
    if (p.text) said.push(lines(p, k).join(" "));
    return said.join(", ");
  };
  const describe = (p, k) => {
    if (p.notes) return p.notes[k];
    const at = p.start + k, forms = new Set([p.shape.map(size), p.shape].map((shape) => show(coordinate(at, shape))));
    const said = [`${p.title} coordinate ${[...forms].join(" = ")}, index ${at}, ${facts(p, k)}`.trim()];
    if (scene.link === "element" || p.keys !== p.offset) for (const other of panels) {
      if (other !== p) linked(other, keys(p, k)[0]).slice(0, 4).forEach((n) => said.push(`${other.title}: ${facts(other, n)}`));
    }
    if (p.marked?.includes(k)) said.push("moved");
    return said.join("; ");
  };

  // drawing
  const CHAR = 6.2;
  let zoom = 1, now = null, chosen = null, width;
  const step = options.at ?? {}; // name -> what its slider shows
  const isHidden = (p) => Object.entries(p.at ?? {}).some(([name, n]) => n !== step[name]);
  const longest = (texts) => max(1, ...texts.map((text) => text.length));
  for (const p of panels) { // the size of a cell whose text has ten pixels
    p.need = 1;
    for (let k = 0; k < p.count; k++) {
      const texts = lines(p, k);
      p.need = max(p.need, longest(texts) * CHAR + 6, texts.length * 12 + 4);
    }
    p.left = longest(p.row_labels || [`${p.rows}`]) * CHAR + 8;
    p.turned = longest(p.column_labels || [`${p.columns}`]) * CHAR + 4;
  }
  const layout = () => {
    width = host.clientWidth;
    const pixels = min(width || 900, 900) / (options.across ?? 1);
    const columns = places[0].map((_, j) => places.flatMap((row) => panels[row[j]] || []));
    const sum = (f) => columns.reduce((n, column) => n + max(0, ...column.map(f)), 0);
    const fits = (p) => wraps ? (pixels - p.left - 2) / p.columns
      : (pixels - 12 * columns.length - sum((p) => p.left)) / sum((p) => p.columns);
    const need = max(options.size || 0, ...panels.map((p) => p.need));
    for (const p of panels) {
      const own = p.notes ? need : max(min(need, floor(fits(p))), 5);
      p.size = max(3, Math.round(own * zoom));
      p.font = min(10 * p.size / p.need, 13);
      for (const canvas of [p.base, p.over]) {
        const box = [p.left + p.size * p.columns + 2, 18 + p.size * p.rows];
        const ratio = view.devicePixelRatio || 1;
        [canvas.width, canvas.height] = box.map((n) => n * ratio);
        [canvas.style.width, canvas.style.height] = box.map((n) => `${n}px`);
        canvas.getContext("2d").setTransform(ratio, 0, 0, ratio, 0, 0);
      }
    }
    draw();
  };
  const corner = (p, k) => {
    const [i, j] = place(p, k);
    return [p.left + j * p.size, 16 + i * p.size];
  };
  draw = () => {
    panels.forEach((p) => {
      const hidden = isHidden(p);
      p.box.style.display = hidden ? "none" : "";
      if (!hidden) drawPanel(p, isDark() ? "#d8d8d8" : "#3a3a3a");
    });
    drawCursor();
  };
  const drawPanel = (p, ink) => {
    const c = p.base.getContext("2d"), { size: s, left } = p, top = 16;
    const right = left + s * p.columns, bottom = top + s * p.rows;
    const lit = chosen !== null && new Set(linked(p, chosen)), rest = lit && hatch(c, ink);
    const line = (thick, colour, x0, y0, x1, y1) => {
      c.lineWidth = thick; c.strokeStyle = colour;
      c.beginPath(); c.moveTo(x0, y0); c.lineTo(x1, y1); c.stroke();
    };
    c.clearRect(0, 0, 1e5, 1e5);
    c.textAlign = "center"; c.textBaseline = "middle"; c.font = `${p.font}px ${MONO}`;
    for (let k = 0; k < p.count; k++) {
      const [x, y] = corner(p, k), dim = lit && !lit.has(k);
      if (p.colour[k] !== null) {
        c.globalAlpha = dim ? 0.35 : 1;
        c.fillStyle = `#${scene.palette[p.colour[k]]}`;
        c.fillRect(x, y, s, s);
        c.globalAlpha = 1;
      }
      if (dim) {
        c.fillStyle = rest;
        c.fillRect(x, y, s, s);
      } else if (p.font >= 5.5) {
        c.fillStyle = p.colour[k] === null ? ink : "#000";
        lines(p, k).forEach((text, i, all) => c.fillText(text, x + s / 2, y + s / 2 + (i - (all.length - 1) / 2) * p.font * 1.15));
      }
    }
    const rules = (sizes, n, draw) => sizes.concat(n).forEach((size) => {
      const pen = size === n ? [1, ink] : size > 1 ? [2, "#000"] : [0.4, ink];
      if (size * s >= 8) for (let at = 0; at <= n; at += size) draw(pen, at * s);
    });
    rules([1, ...p.row_bounds], p.rows, (pen, y) => line(...pen, left, top + y, right, top + y));
    rules([1, ...p.column_bounds], p.columns, (pen, x) => line(...pen, left + x, top, left + x, bottom));
    c.lineWidth = 1;
    for (const k of p.marked || []) {
      const [x, y] = corner(p, k);
      c.strokeStyle = p.colour[k] === null ? ink : "#000";
      c.strokeRect(x + 1.5, y + 1.5, s - 3, s - 3);
    }
    c.fillStyle = ink; c.font = `10px ${MONO}`;
    const skip = (width) => { let n = 1; while (n * s < width) n *= 2; return n; };
    for (let j = 0; j < p.columns; j += skip(p.turned)) c.fillText(p.column_labels?.[j] ?? j, left + (j + 0.5) * s, 8);
    c.textAlign = "right";
    for (let i = 0; i < p.rows; i += skip(11)) c.fillText(p.row_labels?.[i] ?? i, left - 4, top + (i + 0.5) * s);
  };
  const hatch = (c, ink) => {
    const tile = Object.assign(doc.createElement("canvas"), { width: 6, height: 6 }), t = tile.getContext("2d");
    t.strokeStyle = ink; t.globalAlpha = 0.6;
    t.moveTo(-1, 7); t.lineTo(7, -1); t.stroke();
    return c.createPattern(tile, "repeat");
  };
  const drawCursor = () => {
    const [at] = now ? keys(now.p, now.k) : [];
    for (const p of panels) {
      const c = p.over.getContext("2d");
      const frames = (cells, thick, colour) => {
        c.beginPath(); c.lineWidth = thick; c.strokeStyle = colour;
        for (const k of cells) { const [x, y] = corner(p, k); c.rect(x + 1, y + 1, p.size - 2, p.size - 2); }
        c.stroke();
      };
      c.clearRect(0, 0, 1e5, 1e5);
      if (at !== undefined) frames(linked(p, at).slice(0, 999), 2, "#b00020");
      if (p === now?.p) { frames([now.k], 5, "#fff"); frames([now.k], 3, "#000"); }
    }
  };

  // pointer and keys
  const point = (p, k) => {
    if (p && now?.p === p && now.k === k) return;
    now = p && { p, k };
    if (p) readout.textContent = describe(p, k);
    drawCursor();
  };
  const reach = (p, k) => { // point at a cell, and bring it into view
    point(p, k);
    const x = corner(p, k)[0] + p.box.offsetLeft - pane.offsetLeft;
    pane.scrollLeft = max(min(pane.scrollLeft, x - p.left), x + p.size - pane.clientWidth);
  };
  const hover = (p, e) => {
    const box = p.over.getBoundingClientRect();
    const k = cell(p, floor((e.clientY - box.top - 16) / p.size), floor((e.clientX - box.left - p.left) / p.size));
    point(k < 0 ? null : p, k);
  };
  const name = () => chosen === null ? "" : scene.link[0].toUpperCase() + chosen;
  const choose = (at) => {
    chosen = at;
    draw();
    options.onselect?.(name());
  };
  const select = (p, k) => { // again on the same cell: the next of its threads, then none
    const all = keys(p, k);
    choose(all[all.indexOf(chosen) + 1] ?? null);
    const count = panels.flatMap((other) => linked(other, chosen)).length;
    readout.textContent = describe(p, k) + (chosen === null ? "" : `. Selected ${name()}: ${count} cells`);
  };
  const key = (p, e) => {
    if (e.ctrlKey || e.metaKey || e.altKey) return;
    const k = now?.p === p ? now.k : 0, [i, j] = place(p, k);
    const move = { Up: [-1, 0], Down: [1, 0], Left: [0, -1], Right: [0, 1], Home: [0, -j], End: [0, p.columns - 1 - j] }[e.key.replace("Arrow", "")];
    if (move) {
      const next = cell(p, i + move[0], j + move[1]);
      if (next < 0) return e.preventDefault();
      reach(p, next);
    } else if (e.key === "Enter" || e.key === " ") select(p, k);
    else if (e.key === "Escape") choose(null);
    else if ("+=-0".includes(e.key)) {
      zoom = e.key === "0" ? 1 : min(8, max(0.25, zoom * (e.key === "-" ? 0.8 : 1.25)));
      layout();
    } else return;
    e.preventDefault();
    e.stopPropagation();
  };

  const sliders = {};
  for (const name of new Set(panels.flatMap((p) => Object.keys(p.at ?? {})))) {
    const last = max(...panels.map((p) => p.at?.[name] ?? 0));
    step[name] = min(step[name] ?? 0, last);
    if (!last) continue;
    const label = put(steps, "label", "display:flex;gap:8px", { textContent: name });
    const input = sliders[name] = put(label, "input", "", { type: "range", min: 0, max: last, value: step[name], ariaLabel: name });
    const said = put(label, "output");
    input.oninput = () => {
      step[name] = +input.value;
      said.textContent = `${step[name] + 1} of ${last + 1}`;
      point(null);
      draw();
    };
    input.oninput();
  }
  if (options.sel) chosen = +options.sel.slice(1);
  layout();
  view.setTimeout(() => panels.map(indexed));
  new view.ResizeObserver(() => { if (host.clientWidth !== width) layout(); }).observe(host);
  const go = (n, k) => { // to a cell of panel n, by its sliders
    for (const [name, at] of Object.entries(panels[n].at ?? {})) {
      if (step[name] === at || !sliders[name]) continue;
      sliders[name].value = at;
      sliders[name].oninput();
    }
    reach(panels[n], k);
  };
  return { select: choose, go, panels };
};
