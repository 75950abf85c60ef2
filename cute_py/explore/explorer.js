// The explorer: controls that change a state, and what Python answers to it. The page and the
// notebook share it; they differ in `ask(state, isStale)`, which resolves to the answer.
const cutePyExplorer = (host, data, ask, options = {}) => {
  const doc = host.ownerDocument, view = doc.defaultView;
  const ENTRIES = ["e", "by", "bits", "sel"];
  const put = (parent, tag, props = {}) => parent.appendChild(Object.assign(doc.createElement(tag), props));
  const labelled = (parent, text, tag, props = {}) => put(put(parent, "label", { textContent: `${text} ` }), tag, props);

  // -- links, as in links.py
  const quoted = (text) => encodeURIComponent(text.toWellFormed ? text.toWellFormed() : text)
    .replace(/%(2C|3A|3C|3E|40|2B|5B|5D|3D)/g, decodeURIComponent)
    .replace(/[!']/g, (c) => `%${c.charCodeAt(0).toString(16)}`);
  const linkOf = (state) => [`#v${state.v}`, ...ENTRIES.filter((name) => name === "e" || `${state[name]}` !== `${data.plain[name]}`)
    .map((name) => `${name}=${quoted(`${state[name]}`)}`)].join("&");
  const unquoted = (text) => {
    try { return decodeURIComponent(text); } catch { return text; } // broken codes stay as they are
  };
  const number = (text) => /^\d{1,9}$/.test(text) ? +text : text;
  const stateOf = (link) => {
    const [version, ...entries] = link.replace(/^#/, "").split("&");
    const found = { ...data.plain, v: number(version.replace(/^v/, "")) };
    for (const entry of entries) {
      const at = entry.indexOf("="), name = at < 0 ? entry : entry.slice(0, at);
      const value = unquoted(at < 0 ? "" : entry.slice(at + 1));
      if (ENTRIES.includes(name)) found[name] = name === "bits" ? number(value) : value;
    }
    return found;
  };

  // -- elements
  host.replaceChildren();
  put(host, "style", { textContent: STYLE });
  const root = put(host, "div", { className: "explorer" });
  root.setAttribute("data-lm-suppress-shortcuts", "true"); // JupyterLab leaves our keys to us
  const tabs = put(root, "div", { className: "row" });
  const row = put(root, "div", { className: "entry" });
  const text = put(row, "textarea", { rows: 2, spellcheck: false, maxLength: 1 << 14 });
  text.setAttribute("aria-label", "expression");
  text.setAttribute("aria-autocomplete", "list");
  const names = put(row, "ul", { hidden: true });
  names.setAttribute("role", "listbox");
  const controls = put(root, "div", { className: "row" });
  const sliders = put(root, "div", { className: "row sliders" });
  const copies = put(root, "div", { className: "row" });
  const status = put(root, "div", { className: "status" });
  status.setAttribute("role", "status");
  const refused = put(root, "div", { className: "refused", hidden: true });
  const value = put(root, "output", { className: "value" });
  const picture = put(root, "div", { className: "cute-py" });
  const why = put(root, "div", { className: "why" });
  const say = (said) => { status.textContent = said; };

  // -- the state, and its answer
  let state = { ...data.plain }, timer, turn = 0, shown = "";
  const known = (given) => data.presets.find(({ state }) => ENTRIES.every((name) => name === "sel"
    || `${state[name] ?? data.plain[name]}` === `${given[name]}`) && given.v === data.plain.v)?.answer;
  const change = (changes, wait = 0) => {
    Object.assign(state, { v: data.plain.v, sel: "" }, changes);
    refresh();
    view.clearTimeout(timer);
    timer = view.setTimeout(send, wait);
  };
  const send = async () => {
    const mine = ++turn, given = { ...state }, early = known(given);
    if (options.onstate) options.onstate(linkOf(state));
    if (early) show({ ...early, sel: given.sel });
    say(early ? "" : options.waiting?.() ?? "");
    const found = await ask(given, () => mine !== turn);
    if (mine === turn && found) {
      say("");
      show(found);
    }
  };
  const show = (found) => {
    const same = JSON.stringify(found);
    if (same === shown) return;
    shown = same;
    refused.replaceChildren();
    refused.hidden = !found.error;
    root.classList.toggle("old", !!found.error);
    if (found.error) return refuse(found.error);
    value.textContent = found.value;
    picture.replaceChildren();
    why.replaceChildren();
    const onselect = (sel) => {
      state.sel = sel;
      if (options.onstate) options.onstate(linkOf(state));
    };
    if (found.scene) cutePy(put(picture, "div"), found.scene, { sel: found.sel, onselect });
    if (found.why) {
      const details = put(why, "details");
      put(details, "summary", { textContent: "how it was derived" });
      details.ontoggle = () => { if (details.children.length < 2) cutePy(put(details, "div"), found.why); };
    }
  };
  const refuse = (error) => {
    for (const part of ["given", "required", "fix"]) {
      if (error[part]) put(refused, "pre", { textContent: `${part}: ${error[part]}` });
    }
    for (const e of error.repairs ?? []) {
      put(refused, "button", { textContent: e, onclick: () => change({ e }) });
    }
  };

  // -- controls
  const refresh = () => {
    if (text.value !== state.e) text.value = state.e;
    by.value = state.by;
    bits.value = state.bits;
    const swizzle = state.e.match(SWIZZLE)?.slice(1) ?? ["", "", ""];
    swizzles.forEach((input, k) => { input.value = swizzle[k]; });
    const found = numbers();
    while (sliders.children.length > found.length) sliders.lastChild.remove();
    found.forEach(([at, n], k) => {
      const input = sliders.children[k]?.lastChild ?? labelled(sliders, "", "input", { type: "range", min: 0 });
      if (doc.activeElement !== input || +input.value !== n) input.max = Math.max(16, 2 * n, +input.max);
      input.value = n;
      input.parentNode.firstChild.textContent = `${n} `;
      input.setAttribute("aria-label", `integer ${k + 1}`);
      input.oninput = () => replaceNumber(k, input.value);
    });
    const kind = state.e.match(/^(mma|copy)\(/)?.[1];
    if (tiling.dataset.kind !== `${kind}`) {
      tiling.dataset.kind = `${kind}`;
      tiling.replaceChildren();
      for (const each of ["", ...data.tilings[kind] ?? []]) put(tiling, "option", { value: each, textContent: each || "none" });
      tiling.disabled = !kind;
    }
  };
  const SWIZZLE = /Sw<(\d+),(\d+),(-?\d+)>/;
  const numbers = () => [...state.e.matchAll(/<[^<>]*>|(?<![\w.])\d+(?![\w.])/g)] // Sw<3,0,3> has its own
    .filter(([found]) => found[0] !== "<" && found.length < 8).slice(0, 24).map((found) => [found.index, +found[0]]);
  const replaceNumber = (k, n) => {
    const [at, old] = numbers()[k];
    change({ e: state.e.slice(0, at) + n + state.e.slice(at).replace(/^\d+/, "") }, WAIT);
  };
  const by = labelled(controls, "colour by", "select", { onchange: () => change({ by: by.value }) });
  for (const each of ["", ...data.by]) put(by, "option", { value: each, textContent: each || "default" });
  const bits = labelled(controls, "bits", "input", { type: "number", min: 1, max: 1024, oninput: () => change({ bits: +bits.value }, WAIT) });
  const swizzles = ["B", "M", "S"].map((name) => labelled(controls, name, "input", { type: "number", min: name === "S" ? -16 : 0, max: 16, oninput: () => {
    const made = `Sw<${swizzles.map((input) => +input.value || 0)}>`;
    change({ e: SWIZZLE.test(state.e) ? state.e.replace(SWIZZLE, made) : `composition(${made},${state.e})` }, WAIT);
  } }));
  const arch = labelled(controls, "atoms of", "select", { onchange: () => listAtoms() });
  for (const each of Object.keys(data.atoms)) put(arch, "option", { value: each, textContent: each });
  const atoms = put(controls, "select", { onchange: () => { if (atoms.value) change({ e: atoms.value }); } });
  atoms.setAttribute("aria-label", "atom");
  const listAtoms = () => {
    atoms.replaceChildren();
    put(atoms, "option", { value: "", textContent: "choose" });
    for (const kind of ["mma", "copy"]) {
      const group = put(atoms, "optgroup", { label: kind });
      for (const name of data.atoms[arch.value][kind]) put(group, "option", { value: `${kind}(${name})`, textContent: name });
    }
  };
  const tiling = labelled(controls, "tiling", "select", { onchange: () => {
    const [, kind, atom] = state.e.match(/^(mma|copy)\(\s*([^,()<>]*(?:<[^<>]*>)?)/);
    const wide = state.e.match(/,\s*bits=\d+/)?.[0] ?? "";
    change({ e: `${kind}(${atom}${tiling.value && `,${tiling.value}`}${wide})` });
  } });
  data.presets.forEach((preset) => {
    const group = [...tabs.children].find((box) => box.title === preset.tab)
      ?? put(tabs, "details", { title: preset.tab, open: !tabs.children.length });
    if (!group.firstChild) put(group, "summary", { textContent: preset.tab });
    put(group, "button", { textContent: preset.name, onclick: () => change({ ...data.plain, ...preset.state }) });
  });

  // -- copies
  const copy = async (what, made) => {
    try {
      await view.navigator.clipboard.writeText(made);
    } catch { // without permission, or where a page is a file
      const held = put(root, "textarea", { value: made });
      held.select();
      doc.execCommand("copy");
      held.remove();
    }
    say(`Copied ${what}: ${made.length} characters.`);
  };
  put(copies, "button", { textContent: "copy link", onclick: () => copy("the link", (options.base?.() ?? "") + linkOf(state)) });
  for (const [form, what] of Object.entries(data.forms)) {
    put(copies, "button", { textContent: `copy ${what}`, onclick: async () => {
      const found = await ask({ ...state, as: form }, () => false);
      if (found?.error) show(found);
      else if (found) copy(what, found.text);
    } });
  }

  // -- typing, with completion
  let choice = 0;
  const word = () => text.value.slice(0, text.selectionStart).match(/[A-Za-z_]\w*$/)?.[0] ?? "";
  const suggest = () => {
    const typed = word();
    const found = typed ? data.names.filter((name) => name.startsWith(typed) && name !== typed).slice(0, 8) : [];
    choice = 0;
    names.replaceChildren();
    found.forEach((name) => put(names, "li", { textContent: name, onmousedown: (e) => { e.preventDefault(); complete(name); } }).setAttribute("role", "option"));
    names.hidden = !found.length;
    mark();
  };
  const mark = () => [...names.children].forEach((li, k) => li.setAttribute("aria-selected", k === choice));
  const complete = (name) => {
    const end = text.selectionStart, start = end - word().length;
    text.setRangeText(name, start, end, "end");
    names.hidden = true;
    text.focus();
    change({ e: text.value }, WAIT);
  };
  text.oninput = () => { suggest(); change({ e: text.value }, WAIT); };
  text.onblur = () => { names.hidden = true; };
  text.onkeydown = (e) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[e.key];
    if (e.key === "Enter" && (names.hidden || e.ctrlKey)) change({ e: text.value });
    else if (names.hidden) return;
    else if (step) { choice = (choice + step + names.children.length) % names.children.length; mark(); }
    else if (e.key === "Tab" || e.key === "Enter") complete(names.children[choice].textContent);
    else if (e.key === "Escape") names.hidden = true;
    else return;
    e.preventDefault();
  };

  // -- begin
  arch.value = "sm_80";
  listAtoms();
  const open = (link) => {
    state = link.length > 1 ? stateOf(link) : { ...data.plain, ...data.presets[0].state };
    shown = "";
    refresh();
    send();
  };
  return { open, say, state: () => ({ ...state }) };
};
const WAIT = 100; // milliseconds after the last key
const STYLE = `
.explorer { max-width: 1000px; font: 14px/1.5 system-ui, sans-serif; }
.explorer .row { display: flex; flex-wrap: wrap; gap: 4px 12px; align-items: center; margin: 4px 0; }
.explorer .row details button { margin: 2px; }
.explorer .entry { position: relative; }
.explorer textarea { width: 100%; box-sizing: border-box; font: 14px ui-monospace, monospace; }
.explorer ul { position: absolute; z-index: 1; margin: 0; padding: 2px; list-style: none; background: Canvas; color: CanvasText; border: 1px solid GrayText; }
.explorer li { padding: 0 6px; cursor: pointer; font-family: ui-monospace, monospace; }
.explorer li[aria-selected=true] { background: Highlight; color: HighlightText; }
.explorer input[type=number] { width: 4em; }
.explorer select { max-width: 20em; }
.explorer .sliders label { font-family: ui-monospace, monospace; }
.explorer .sliders input { width: 90px; }
.explorer .status { min-height: 1.5em; }
.explorer .refused { border-left: 3px solid #b00020; padding-left: 8px; }
.explorer [hidden] { display: none; }
.explorer pre { margin: 0; white-space: pre-wrap; overflow-wrap: anywhere; }
.explorer .refused button, .explorer .value { font-family: ui-monospace, monospace; overflow-wrap: anywhere; }
.explorer.old > .value, .explorer.old > .cute-py, .explorer.old > .why { opacity: 0.35; }
`;
