// Draws a scene of `cute_py.viz.scene` that answers the pointer and the keys. One canvas holds the
// cells of a panel and one above it the cursor: no cell has an element of its own. All text reaches
// the page through textContent or a canvas, so no title can be markup.
const cutePy = (host, scene, options = {}) => {
  const doc = host.ownerDocument, view = doc.defaultView;
  const put = (parent, tag, css, props) => {
    const made = Object.assign(doc.createElement(tag), props);
    made.style.cssText = css || "";
    return parent.appendChild(made);
  };
  host.replaceChildren();
  host.setAttribute("data-lm-suppress-shortcuts", "true"); // JupyterLab leaves our keys to us
  const root = put(host, "div", "max-width:100%;font:13px/1.5 system-ui,sans-serif");
  if (scene.v !== 1) {
    put(root, "p", "", { textContent: "This picture needs a newer version of cute_py." });
    return {};
  }
  if (scene.tree) {
    tree(root, scene.tree, true);
    return {};
  }

  // -- the page's theme
  const media = view.matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => {
    const { classList: names, dataset } = doc.body;
    if (dataset.jpThemeLight) return dataset.jpThemeLight === "false";
    if (names.contains("vscode-light") || names.contains("vscode-high-contrast-light")) return false;
    if (names.contains("vscode-dark") || names.contains("vscode-high-contrast")) return true;
    return media.matches;
  };

  // -- elements: title, steps, panels, readout
  const title = put(root, "div", "font-weight:600;overflow-wrap:anywhere", { textContent: scene.title });
  const pane = put(root, "div", "overflow:auto;max-width:100%");
  const stacked = scene.places.length === 1; // one row of panels may wrap
  const table = put(pane, "div", stacked ? "display:flex;flex-wrap:wrap;gap:12px"
    : `display:grid;gap:12px;justify-content:start;grid-template-columns:repeat(${scene.places[0].length},max-content)`);
  const panels = scene.panels.map((spec) => ({ ...spec, cells: spec.colour.length }));
  for (const at of scene.places.flat()) {
    const box = put(table, "div");
    if (at === null) continue;
    const p = panels[at];
    p.box = box;
    put(box, "div", "font-size:12px", { textContent: p.title });
    const stack = put(box, "div", "position:relative");
    p.base = put(stack, "canvas", "display:block");
    p.over = put(stack, "canvas", "position:absolute;left:0;top:0;cursor:crosshair", { tabIndex: 0 });
    p.over.setAttribute("role", "application");
    p.over.setAttribute("aria-label", `${scene.title} ${p.title}: ${p.rows} rows, ${p.columns} columns. ` +
      "Arrow keys move, Enter selects, Escape clears, plus and minus zoom.");
    p.over.addEventListener("pointermove", (event) => hover(p, event));
    p.over.addEventListener("pointerleave", () => point(null));
    p.over.addEventListener("click", (event) => { hover(p, event); if (now) select(p, now.k); });
    p.over.addEventListener("keydown", (event) => key(p, event));
    p.over.addEventListener("focus", () => { if (!now || now.p !== p) point(p, 0); });
  }
  if (scene.steps) slider();
  const readout = put(root, "div", "min-height:3em;overflow-wrap:anywhere;font-family:ui-monospace,monospace;font-size:12px");
  readout.setAttribute("role", "status");
  const help = "Hover, or use the arrow keys, to read a cell; click, or Enter, to select" +
    (scene.link === "thread" ? " a thread." : " equal cells.");
  readout.textContent = help;

  // -- cells
  const range = (text) => text.split(",").flatMap((part) => {
    const [, first, last = first, step = 1] = part.match(/^(\d+)(?:-(\d+)(?:\/(\d+))?)?$/);
    const found = [];
    for (let t = +first; t <= +last; t += +step) found.push(t);
    return found;
  });
  const each = (x) => x === null || x === undefined ? [] : Array.isArray(x) ? x : [x];
  const place = (p, k) => p.across ? [Math.floor(k / p.columns), k % p.columns] : [k % p.rows, Math.floor(k / p.rows)];
  const cell = (p, row, column) => {
    const k = p.across ? row * p.columns + column : row + column * p.rows;
    return k < p.cells ? k : -1;
  };
  const size = (shape) => Array.isArray(shape) ? shape.reduce((n, mode) => n * size(mode), 1) : shape;
  const coordinate = (index, shape) => { // colexicographical: the leftmost mode is the fastest
    if (!Array.isArray(shape)) return index;
    return shape.map((mode, i) => {
      const n = size(mode), own = i < shape.length - 1 ? index % n : index;
      index = Math.floor(index / n);
      return coordinate(own, mode);
    });
  };
  const show = (x) => Array.isArray(x) ? `(${x.map(show).join(",")})` : `${x}`;
  const holders = (p, k) => each(p.thread && p.thread[k]).map((set, i) =>
    [p.threads[set], each(Array.isArray(p.thread[k]) ? p.value[k][i] : p.value[k]).join(",")]);
  const lines = (p, k) => {
    if (p.text) return p.text[k].split("\n");
    if (p.thread) {
      const found = holders(p, k);
      return found.length === 1 ? [`T${found[0][0]}`, `V${found[0][1]}`] : found.map(([t, v]) => `T${t} V${v}`);
    }
    return p.offset ? [`${p.offset[k]}`] : [];
  };

  // what a cell shares with others: its threads, its number or its offset
  const keys = (p, k) => {
    if (scene.link === "thread") return each(p.thread && p.thread[k]).flatMap((set) => members(p, set));
    if (scene.link === "element") return [p.start + k];
    return p.offset ? [p.offset[k]] : [];
  };
  const members = (p, set) => (p.sets ||= p.threads.map(range))[set];
  const index = (p) => { // key -> cells; of threads by their sets, of which there are few
    if (p.index) return p.index;
    p.index = new Map();
    const add = (map, at, k) => map.has(at) ? map.get(at).push(k) : map.set(at, [k]);
    const bySet = new Map();
    for (let k = 0; k < p.cells; k++) {
      if (scene.link === "thread") each(p.thread && p.thread[k]).forEach((set) => add(bySet, set, k));
      else keys(p, k).forEach((at) => add(p.index, at, k));
    }
    for (const [set, cells] of bySet) members(p, set).forEach((t) => add(p.index, t, cells));
    return p.index;
  };
  const linked = (p, at) => (index(p).get(at) || []).flat();

  const describe = (p, k) => {
    if (p.notes) return p.notes[k];
    const at = p.start + k, said = [], forms = new Set();
    const flat = p.shape.map(size);
    if (flat.length > 1) forms.add(show(coordinate(at, flat)));
    forms.add(show(coordinate(at, p.shape)));
    said.push(`${p.title ? p.title + ": " : ""}coordinate ${[...forms].join(" = ")}`, `index ${at}`);
    if (p.coordinate) said.push(`value ${p.coordinate[k]}`);
    if (p.offset) {
      const bit = p.offset[k] * scene.bits, byte = bit / 8;
      said.push(`offset ${p.offset[k]}`, `byte ${byte}`, `bank ${((Math.floor(bit / 32) % 32) + 32) % 32} (${scene.bits}-bit elements)`);
    }
    if (p.thread) said.push(holders(p, k).map(([t, v]) => `T${t} V${v}`).join("; ") || "no thread");
    if (p.text && !p.offset && !p.thread && !p.coordinate) said.push(lines(p, k).join(" "));
    return said.join(", ");
  };

  // -- drawing
  const CHAR = 6.2, LINE = 12;
  let zoom = 1, now = null, chosen = null, step = 0;
  const natural = (p) => {
    if (!p.need) {
      let wide = 1, high = 1;
      for (let k = 0; k < p.cells; k++) {
        const texts = lines(p, k);
        high = Math.max(high, texts.length);
        for (const text of texts) wide = Math.max(wide, text.length);
      }
      p.need = Math.max(wide * CHAR + 6, high * LINE + 4);
      const label = (names, n) => names ? Math.max(...names.map((name) => name.length), 1) : `${n - 1}`.length;
      p.left = label(p.row_labels, p.rows) * CHAR + 8;
      p.turned = label(p.column_labels, p.columns);
      p.top = 16;
    }
    return p.need;
  };
  const layout = () => {
    const width = Math.min(host.clientWidth || 900, options.width || 900);
    const columns = stacked ? panels.map((p) => [p])
      : scene.places[0].map((_, j) => scene.places.map((row) => row[j]).filter((at) => at !== null).map((at) => panels[at]));
    const wanted = Math.max(...panels.map(natural));
    const fits = stacked ? Math.min(...panels.map((p) => (width - p.left - 2) / p.columns))
      : (width - 12 * columns.length - columns.reduce((n, c) => n + Math.max(...c.map((p) => p.left)), 0)) /
        columns.reduce((n, c) => n + Math.max(...c.map((p) => p.columns)), 0);
    const pixels = Math.max(Math.min(wanted, Math.floor(fits)), 5);
    for (const p of panels) {
      p.size = Math.max(3, Math.round(pixels * zoom));
      p.font = Math.min(10 * p.size / natural(p), 13);
      for (const canvas of [p.base, p.over]) {
        const [w, h] = [p.left + p.size * p.columns + 2, p.top + p.size * p.rows + 2];
        const ratio = Math.min(view.devicePixelRatio || 1, 16000 / Math.max(w, h));
        canvas.width = w * ratio; canvas.height = h * ratio;
        canvas.style.width = `${w}px`; canvas.style.height = `${h}px`;
        canvas.getContext("2d").setTransform(ratio, 0, 0, ratio, 0, 0);
      }
    }
    draw();
  };
  const draw = () => {
    const ink = isDark() ? "#d8d8d8" : "#3a3a3a";
    root.style.color = isDark() ? "#e8e8e8" : "#1a1a1a";
    panels.forEach((p, n) => {
      p.box.style.display = scene.steps && n !== step ? "none" : "";
      if (!scene.steps || n === step) base(p, ink);
    });
    over();
  };
  const base = (p, ink) => {
    const c = p.base.getContext("2d"), { size: s, left, top } = p;
    c.clearRect(0, 0, 1e5, 1e5);
    const lit = chosen && new Set(linked(p, chosen.at));
    c.textAlign = "center"; c.textBaseline = "middle";
    c.font = `${p.font}px ui-monospace,Menlo,Consolas,monospace`;
    const rest = hatch(c, ink);
    for (let k = 0; k < p.cells; k++) {
      const [row, column] = place(p, k), [x, y] = [left + column * s, top + row * s];
      const dim = lit && !lit.has(k);
      if (p.colour[k] !== null) {
        c.globalAlpha = dim ? 0.35 : 1;
        c.fillStyle = `#${scene.palette[p.colour[k] % scene.palette.length]}`;
        c.fillRect(x, y, s, s);
        c.globalAlpha = 1;
      }
      if (dim) { c.fillStyle = rest; c.fillRect(x, y, s, s); continue; }
      if (p.font < 6.5) continue;
      const texts = lines(p, k);
      c.fillStyle = p.colour[k] === null ? ink : "#000";
      texts.forEach((text, i) => c.fillText(text, x + s / 2, y + s / 2 + (i - (texts.length - 1) / 2) * p.font * 1.15));
    }
    const rules = (rows, columns, thick) => {
      c.beginPath(); c.lineWidth = thick; c.strokeStyle = ink;
      for (let i = 0; rows && i <= p.rows; i += rows) { c.moveTo(left, top + i * s); c.lineTo(left + s * p.columns, top + i * s); }
      for (let j = 0; columns && j <= p.columns; j += columns) { c.moveTo(left + j * s, top); c.lineTo(left + j * s, top + s * p.rows); }
      c.stroke();
    };
    if (s >= 8) rules(1, 1, 0.4);
    rules(p.rows, p.columns, 1);
    p.row_bounds.forEach((n, i) => rules(n, 0, 1.5 + i * 0.75));
    p.column_bounds.forEach((n, i) => rules(0, n, 1.5 + i * 0.75));
    (p.marked || []).forEach((k) => {
      const [row, column] = place(p, k);
      c.lineWidth = 2; c.strokeRect(left + column * s + 2, top + row * s + 2, s - 4, s - 4);
    });
    (p.bars || []).forEach(([row, first, last, lane]) => {
      const y = top + (row + 1) * s - 2 - 3 * lane;
      c.lineWidth = 2; c.beginPath(); c.moveTo(left + (first + 0.5) * s, y); c.lineTo(left + (last + 0.5) * s, y);
      c.moveTo(left + (last + 0.5) * s, y - 3); c.lineTo(left + (last + 0.5) * s, y + 3); c.stroke();
    });
    c.fillStyle = ink; c.font = "10px ui-monospace,Menlo,Consolas,monospace";
    const skip = (names, width) => { let n = 1; while (n * s < width) n *= 2; return n; };
    const down = skip(p.row_labels, 11), across = skip(p.column_labels, p.turned * CHAR + 4);
    for (let j = 0; j < p.columns; j += across) c.fillText(p.column_labels ? p.column_labels[j] : j, left + (j + 0.5) * s, 8);
    c.textAlign = "right";
    for (let i = 0; i < p.rows; i += down) c.fillText(p.row_labels ? p.row_labels[i] : i, left - 4, top + (i + 0.5) * s);
  };
  const hatch = (c, ink) => {
    const tile = Object.assign(doc.createElement("canvas"), { width: 6, height: 6 }), t = tile.getContext("2d");
    t.strokeStyle = ink; t.lineWidth = 1; t.globalAlpha = 0.6;
    t.beginPath(); t.moveTo(-1, 7); t.lineTo(7, -1); t.stroke();
    return c.createPattern(tile, "repeat");
  };
  const over = () => {
    const at = now && keys(now.p, now.k)[0];
    for (const p of panels) {
      const c = p.over.getContext("2d");
      c.clearRect(0, 0, 1e5, 1e5);
      if (!now) continue;
      const frame = (k) => {
        const [row, column] = place(p, k);
        c.rect(p.left + column * p.size + 1, p.top + row * p.size + 1, p.size - 2, p.size - 2);
      };
      c.beginPath(); c.lineWidth = 1.5; c.strokeStyle = "#b00020";
      if (at !== undefined) linked(p, at).forEach(frame);
      c.stroke();
      if (p !== now.p) continue;
      for (const [thick, colour] of [[5, "#fff"], [3, "#000"]]) { // seen on light and on dark cells
        c.beginPath(); c.lineWidth = thick; c.strokeStyle = colour; frame(now.k); c.stroke();
      }
    }
  };

  // -- pointer and keys
  const point = (p, k) => {
    if (p && now && now.p === p && now.k === k) return;
    now = p ? { p, k } : null;
    if (p) readout.textContent = describe(p, k);
    over();
  };
  const hover = (p, event) => {
    const box = p.over.getBoundingClientRect();
    const column = Math.floor((event.clientX - box.left - p.left) / p.size);
    const row = Math.floor((event.clientY - box.top - p.top) / p.size);
    const inside = row >= 0 && row < p.rows && column >= 0 && column < p.columns;
    const k = inside ? cell(p, row, column) : -1;
    point(k < 0 ? null : p, k);
  };
  const name = (at) => ({ thread: "T", element: "E", offset: "O" })[scene.link] + at;
  const choose = (at) => {
    chosen = at === null ? null : { at };
    draw();
    if (options.onselect) options.onselect(chosen ? name(at) : "");
  };
  const select = (p, k) => { // again on the same cell: the next of its threads, then none
    const all = keys(p, k), i = chosen ? all.indexOf(chosen.at) : -1;
    choose(i + 1 < all.length ? all[i + 1] : null);
    const count = chosen ? panels.reduce((n, each) => n + linked(each, chosen.at).length, 0) : 0;
    readout.textContent = describe(p, k) + (chosen ? `. Selected ${name(chosen.at)}: ${count} cells` : "");
  };
  const key = (p, event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const k = now && now.p === p ? now.k : 0, [row, column] = place(p, k);
    const moves = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1], Home: [0, -column], End: [0, p.columns - 1 - column] };
    if (event.key in moves) {
      const [i, j] = [row + moves[event.key][0], column + moves[event.key][1]];
      const next = i >= 0 && i < p.rows && j >= 0 && j < p.columns ? cell(p, i, j) : -1;
      point(p, next < 0 ? k : next);
    } else if (event.key === "Enter" || event.key === " ") select(p, k);
    else if (event.key === "Escape") choose(null);
    else if ("+=-0".includes(event.key)) {
      zoom = event.key === "0" ? 1 : Math.min(8, Math.max(0.25, zoom * (event.key === "-" ? 0.8 : 1.25)));
      layout();
    } else return;
    event.preventDefault();
    event.stopPropagation();
  };

  function slider() {
    const box = put(root, "label", "display:flex;gap:8px;align-items:center", { textContent: "Step" });
    root.insertBefore(box, pane);
    const input = put(box, "input", "", { type: "range", min: 0, max: panels.length - 1, value: 0 });
    const said = put(box, "output");
    const tell = () => { said.textContent = `${+input.value + 1} of ${panels.length}`; };
    tell();
    input.addEventListener("input", () => { step = +input.value; tell(); point(null); draw(); });
  }
  function tree(parent, node, open) {
    const details = put(parent, "details", "margin-left:1em");
    put(details, "summary", "font-family:ui-monospace,monospace;overflow-wrap:anywhere", { textContent: node.text });
    for (const line of node.lines) put(details, "div", "margin-left:1em;opacity:.8", { textContent: line });
    const inside = put(details, "div", "margin-left:1em");
    const drawOnce = () => {
      if (details.open && node.scene && !inside.childNodes.length) cutePy(inside, node.scene, options);
    };
    details.addEventListener("toggle", drawOnce);
    details.open = open;
    node.operands.forEach((child) => tree(details, child, false));
  }

  if (options.sel) chosen = { at: +options.sel.slice(1) };
  layout();
  const again = () => (host.isConnected ? draw() : watch.disconnect());
  const watch = new view.MutationObserver(again);
  watch.observe(doc.body, { attributes: true });
  media.addEventListener("change", again);
  let width = host.clientWidth;
  new view.ResizeObserver(() => { if (host.clientWidth !== width) { width = host.clientWidth; layout(); } }).observe(host);
  return { select: choose, layout };
};
