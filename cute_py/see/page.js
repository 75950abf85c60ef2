// The page of a kernel: source on the left; the line that is chosen shows what it makes, compiles to
// and did. Pictures are scenes of `cutePy`, all those of a line in one, so that their cells are linked.
const cutePySee = (host, data) => {
  const doc = host.ownerDocument, view = doc.defaultView;
  const put = (parent, tag, props = {}, role = "", label = "") => {
    const made = parent.appendChild(Object.assign(doc.createElement(tag), props));
    if (role) made.setAttribute("role", role);
    if (label) made.setAttribute("aria-label", label);
    return made;
  };
  put(host, "style", { textContent: `
    .see { color-scheme: light dark; --line: light-dark(#d3d9e0, #3b424b); --soft: light-dark(#57606a, #9da7b3); --fill: light-dark(#f3f5f8, #20252b); --accent: light-dark(#0b5cc0, #74b4ff);
      display: grid; grid-template-columns: minmax(0, 5fr) minmax(0, 7fr); gap: 12px 20px; color: light-dark(#1b1f24, #e6e9ed); font: 14px/1.5 system-ui, sans-serif; accent-color: var(--accent); }
    .see .source { max-height: 86vh; overflow: auto; border: 1px solid var(--line); border-radius: 6px; font: 12px/1.6 ui-monospace, monospace; position: sticky; top: 8px; }
    .see .source div { white-space: pre; padding: 0 8px; width: max-content; min-width: 100%; box-sizing: border-box; }
    .see .source b { display: inline-block; width: 4ch; margin-right: 1.5ch; text-align: right; font-weight: 400; color: var(--soft); }
    .see .source .file { position: sticky; top: 0; background: var(--fill); color: var(--soft); }
    .see .source [role=option] { cursor: pointer; }
    .see .source [data-rows] b { color: var(--accent); font-weight: 700; }
    .see .source .now { background: light-dark(#fff2c8, #4a3d10); }
    .see .source [aria-selected=true] { background: light-dark(#d6e6fb, #1f3f66); }
    .see :focus-visible { outline: 2px solid var(--accent); outline-offset: 1px; }
    .see h2 { font: 600 14px/1.5 ui-monospace, monospace; margin: 0 0 6px; overflow-wrap: anywhere; }
    .see .rows { display: grid; gap: 2px; margin: 8px 0; }
    .see .rows > div { display: flex; flex-wrap: wrap; gap: 2px 12px; align-items: baseline; }
    .see code, .see li { font: 12px/1.5 ui-monospace, monospace; overflow-wrap: anywhere; }
    .see .soft { color: var(--soft); }
    .see button, .see select { font: inherit; color: inherit; background: var(--fill); border: 1px solid var(--line); border-radius: 6px; padding: 1px 8px; cursor: pointer; }
    .see [role=status] { position: sticky; bottom: 0; background: var(--jp-layout-color0, light-dark(#fff, #14171a)); }
    .see .run { grid-column: 1 / -1; }
    .see .play { display: flex; flex-wrap: wrap; gap: 8px; align-items: center; }
    @media (max-width: 800px) { .see { grid-template-columns: minmax(0, 1fr); } .see .source { max-height: 40vh; position: static; } }
  ` });
  const root = put(host, "div", { className: "see" });
  root.dataset.lmSuppressShortcuts = "true"; // JupyterLab leaves our keys to us
  const theme = () => { // JupyterLab's, or the system's
    const light = doc.body.dataset.jpThemeLight;
    root.style.colorScheme = light ? (light === "true" ? "light" : "dark") : "";
  };
  new view.MutationObserver(theme).observe(doc.body, { attributes: true });
  theme();

  // -- what is packed, see `packed` of `viz/scenes.py`
  const whole = (x) => {
    if (Array.isArray(x)) return x.map(whole);
    if (x === null || typeof x !== "object") return x;
    let sum = 0;
    if (x["+"]) return x["+"].map((n) => sum += n);
    if (x.of) {
      const columns = x.of.map(whole), parts = x["#"].split("#");
      return columns[0].map((_, k) => parts.map((part, n) => n ? columns[n - 1][k] + part : part).join(""));
    }
    return Object.fromEntries(Object.entries(x).map(([name, each]) => [name, whole(each)]));
  };
  const unpacked = async (text) => {
    const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
    return whole(await new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).json());
  };
  const known = {};
  const panelsOf = (n) => known[n] ??= unpacked(data.pictures[n]);

  // -- the source
  const pages = doc.querySelectorAll(".see").length; // of a notebook
  const source = put(root, "div", { className: "source", tabIndex: 0 }, "listbox", `source of ${data.title}`);
  const lines = data.statements.map(() => []); // of each statement its elements
  data.source.forEach(({ name, file, first, lines: texts, at }, part) => {
    put(source, "div", { className: "file", textContent: `${file} ${name}` }, "presentation");
    texts.forEach((text, k) => {
      const line = put(source, "div"), n = at[k];
      put(line, "b", { textContent: first + k });
      line.append(text);
      if (n === null) return line.setAttribute("role", "presentation");
      const { rows } = data.statements[n];
      if (rows.length) line.dataset.rows = rows.length;
      Object.assign(line, { id: `cute-see-${pages}-${part}-${first + k}`, onclick: () => choose(n) });
      line.setAttribute("role", lines[n].length ? "presentation" : "option");
      lines[n].push(line);
    });
  });
  let chosen = null;
  const mark = (n, name, value) => lines[n]?.forEach((line) => line.setAttribute(name, value));
  source.onkeydown = (e) => {
    const last = lines.length - 1, step = { ArrowDown: chosen + 1, ArrowUp: chosen - 1, Home: 0, End: last }[e.key];
    if (step === undefined) return;
    if (lines[step]) choose(step);
    e.preventDefault();
  };

  // -- what a line makes, compiles to and did
  const detail = put(root, "div", { className: "detail" }, "region", "the line that is chosen");
  let link = "place", turn = 0; // what hovering a cell lights
  const at = {}; // name of a slider -> where it is, for all lines
  const choose = (n) => {
    mark(chosen, "aria-selected", false);
    chosen = n;
    mark(n, "aria-selected", true);
    lines[n][0].scrollIntoView({ block: "nearest" });
    source.setAttribute("aria-activedescendant", lines[n][0].id);
    detail.replaceChildren();
    const { rows, uses, ops, counts } = data.statements[n];
    const [number, ...text] = lines[n].map((line) => line.lastChild.textContent.trim());
    put(detail, "h2", { textContent: [`line ${lines[n][0].firstChild.textContent}:`, number, ...text].join(" ") });
    if (counts) {
      const said = Object.entries(counts).filter(([, count]) => count).map(([name, count]) => `${count} ${LONG[name] ?? name}`);
      put(detail, "div", { className: "counts", textContent: `The run: ${said.join(", ") || "nothing counted"}.` });
    }
    const list = put(detail, "div", { className: "rows" }), boxes = new Map();
    const shows = rows.some((k) => data.rows[k].picture !== null) ? rows : uses;
    for (const k of [...rows, ...uses]) boxes.set(k, putRow(list, data.rows[k], shows.includes(k), uses.includes(k)));
    if (ops.length) {
      const details = put(detail, "details", { open: true, className: "ops" });
      put(details, "summary", { textContent: "ops of the plan" });
      const items = put(details, "ul");
      for (const [op, times] of ops) put(items, "li", { textContent: times > 1 ? `${op}, ${times} times` : op });
    }
    const label = put(detail, "label", { textContent: "a cell lights " });
    const select = put(label, "select", { onchange: () => { link = select.value; draw(); } });
    for (const [value, textContent] of [["place", "the same element"], ["thread", "the same thread"]]) put(select, "option", { value, textContent });
    select.value = link;
    const box = put(detail, "div");
    const draw = async () => {
      const mine = ++turn, shown = [...boxes].filter(([, input]) => input.checked).map(([k]) => data.rows[k]);
      const found = await Promise.all(shown.map((row) => panelsOf(row.picture)));
      if (mine !== turn) return;
      const panels = found.flatMap((each, r) => each.map((panel) => ({
        ...panel,
        title: `${shown[r].name} ${shown[r].title} ${panel.title}`.replace(/ +/g, " "),
        bits: shown[r].bits,
        keys: placed(panel.places, shown[r].storage),
      })));
      label.hidden = !panels.length;
      box.replaceChildren();
      if (panels.length) cutePy(box, { v: 1, title: "", link, bits: 16, palette: data.palette, places: [[...panels.keys()]], panels }, { at, across: shown.length > 1 && box.clientWidth > 640 ? 2 : 1 });
    };
    boxes.forEach((input) => { input.onchange = draw; });
    draw();
  };
  const LONG = { conflicts: "bank conflicts", sectors: "sectors of 32 bytes", mma: "matrix instructions" };
  const placed = (places, storage) => storage === null ? [] : places.map((n) => n === NOWHERE ? null : `${storage}:${n}`);
  const NOWHERE = -(2 ** 52);
  const putRow = (list, row, checked, used) => {
    const line = put(list, "div"), has = row.picture !== null, label = put(line, "label");
    const input = put(label, "input", { type: "checkbox", checked: checked && has, disabled: !has }, "", `picture of ${row.name}`);
    put(label, "code", { textContent: row.name });
    const modes = row.modes.length ? `(${row.modes})` : "";
    put(line, "span", { className: "soft", textContent: [used ? `of line ${row.line}` : "", row.role, row.memory, row.dtype, modes].filter(Boolean).join(" ") });
    put(line, "code", { textContent: row.layout, title: row.made });
    if (!has) put(line, "span", { className: "soft", textContent: `No picture: ${row.reason}` });
    else if (row.explore && data.explorer) put(line, "a", { textContent: "open in the explorer", href: data.explorer + row.explore, target: "_blank" });
    else if (row.explore) {
      const call = `cute.explore("${row.explore}")`;
      const button = put(line, "button", { textContent: "open in the explorer", onclick: () => {
        button.replaceWith(Object.assign(doc.createElement("code"), { textContent: `in a notebook: ${call}` }));
        view.navigator.clipboard?.writeText(call).catch(() => {}); // a page may lack the permission
      } });
    }
    return input;
  };

  // -- the run
  if (data.timeline) unpacked(data.timeline).then((scene) => {
    const run = put(root, "div", { className: "run" }, "region", "timeline of the run"), bar = put(run, "div", { className: "play" });
    const button = put(bar, "button", { textContent: "play" });
    const slider = put(bar, "input", { type: "range", min: 0, max: data.events.length - 1, value: 0 }, "", "event");
    const said = put(bar, "output"), drawn = cutePy(put(run, "div"), scene);
    let timer = null, now = null;
    const cells = scene.panels.flatMap((panel, n) => [...Array(panel.columns).keys()].map((column) => // of each event
      [n, [...Array(panel.rows).keys()].map((row) => row * panel.columns + column).find((k) => panel.notes[k].startsWith("event"))]));
    const show = () => {
      const [text, n] = data.events[slider.value];
      lines[now]?.forEach((line) => line.classList.remove("now"));
      now = n;
      lines[n]?.forEach((line) => line.classList.add("now"));
      lines[n]?.[0].scrollIntoView({ block: "nearest" });
      said.textContent = `event ${slider.value}, ${text}`;
      drawn.go(...cells[slider.value]);
    };
    slider.oninput = show;
    const step = () => {
      if (!host.isConnected || slider.value === slider.max) return pause();
      slider.value++;
      show();
    };
    const pause = () => {
      timer = view.clearInterval(timer);
      button.textContent = "play";
    };
    button.onclick = () => {
      if (timer) return pause();
      if (slider.value === slider.max) slider.value = 0;
      timer = view.setInterval(step, 250);
      button.textContent = "pause";
      show();
    };
  });
  choose(data.first ?? 0);
};
