// The explorer: controls that change a state, and what Python answers to it. The page and the
// notebook share it; they differ in `ask(state, isStale)`, which resolves to the answer.
const cutePyExplorer = (host, data, ask, options = {}) => {
  const doc = host.ownerDocument, view = doc.defaultView;
  const put = (parent, tag, props = {}) => parent.appendChild(Object.assign(doc.createElement(tag), props));
  const labelled = (parent, text, tag, props = {}) => {
    const label = put(parent, "label");
    put(label, "span", { textContent: text });
    return put(label, tag, { ariaLabel: text, ...props });
  };

  const { linkOf, stateOf, packed, unpacked } = cutePyLinks(data);

  // -- elements
  host.replaceChildren();
  put(host, "style", { textContent: STYLE });
  const root = put(host, "div", { className: "explorer" });
  root.dataset.lmSuppressShortcuts = "true"; // JupyterLab leaves our keys to us
  const theme = () => { // JupyterLab's, or the system's
    const light = doc.body.dataset.jpThemeLight;
    root.style.colorScheme = light ? (light === "true" ? "light" : "dark") : "";
  };
  new view.MutationObserver(theme).observe(doc.body, { attributes: true });
  theme();
  const tabs = put(root, "div", { className: "tabs" });
  tabs.setAttribute("role", "tablist");
  const chips = put(root, "div", { className: "chips" });
  const entry = put(root, "div", { className: "entry" });
  const text = put(entry, "textarea", { rows: 1, spellcheck: false, maxLength: 1 << 16, placeholder: "(4,8):(8,1)" });
  text.setAttribute("aria-label", "expression");
  text.setAttribute("aria-autocomplete", "list");
  const names = put(entry, "ul", { hidden: true });
  names.setAttribute("role", "listbox");
  const search = put(root, "details", { className: "search" });
  const sliders = put(root, "div", { className: "sliders" });
  const controls = put(root, "div", { className: "controls" });
  const status = put(root, "div", { className: "status" });
  status.setAttribute("role", "status");
  const hinted = put(root, "div", { className: "hinted", hidden: true });
  const refused = put(root, "div", { className: "refused", hidden: true });
  const result = put(root, "div", { className: "result" });
  const head = put(result, "div", { className: "head" });
  const value = put(head, "output", { className: "value" });
  const copies = put(head, "div", { className: "copies" });
  const picture = put(result, "div", { className: "cute-py" });
  const why = put(result, "div", { className: "why" });
  const say = (said) => { status.textContent = said; };

  // -- the state, and its answer
  let state = { ...data.plain }, timer, turn = 0, shown = "", last = null, typed = 0;
  const known = (given) => data.presets.find(({ state }) => data.entries.every((name) => name === "sel"
    || `${state[name] ?? data.plain[name]}` === `${given[name]}`) && given.v === data.plain.v)?.answer;
  const change = (changes, wait = 0) => {
    Object.assign(state, { v: data.plain.v, sel: "" }, changes);
    if (!(Number.isInteger(state.bits) && state.bits > 0 && state.bits <= data.widest) && !("bits" in changes)) {
      state.bits = data.plain.bits; // of a bad link, which was refused
    }
    refresh();
    view.clearTimeout(timer);
    const isStep = !wait || Date.now() - typed > STEP;
    typed = wait ? Date.now() : 0;
    timer = view.setTimeout(() => send(isStep), wait);
  };
  const send = async (isStep = false) => {
    const mine = ++turn, given = { ...state }, early = known(given);
    if (options.onstate) options.onstate(linkOf(state), isStep);
    if (early) show({ ...early, sel: given.sel });
    say(early ? "" : options.waiting?.() ?? "");
    const found = await ask(given, () => mine !== turn);
    if (mine === turn && found) {
      say("");
      last = [linkOf(given), found];
      show(found);
    }
  };
  const read = (what) => { // a text that becomes an expression: as pasted, or offsets whose layout is found
    view.clearTimeout(timer);
    timer = view.setTimeout(async () => {
      const mine = ++turn, found = await ask({ ...state, ...what }, () => mine !== turn);
      if (mine !== turn || !found) return;
      if (found.error) show(found);
      else change({ e: found.e });
    }, WAIT);
  };
  const showPacked = async (text) => {
    const mine = turn;
    try {
      const found = await unpacked(text);
      if (!found || mine !== turn || last?.[0] === linkOf(state)) return;
      show({ ...found, sel: state.sel });
      const waits = options.waiting?.() ?? "";
      say(waits && `This is what the link says. ${waits}`);
    } catch { /* not of ours: Python answers */ }
  };
  const show = (found) => {
    const same = JSON.stringify([found, state.cells]);
    if (same === shown) return;
    shown = same;
    refused.replaceChildren();
    refused.hidden = !found.error;
    hinted.replaceChildren();
    const said = found.pattern || found.hint;
    hinted.hidden = !(said || found.tries?.length);
    if (said) put(hinted, "span", { textContent: said });
    tryThese(hinted, found.tries ?? []);
    result.classList.toggle("old", !!found.error);
    if (found.error) return refuse(found.error);
    const [begin, shapes] = found.tiles ?? ["", []];
    tile.replaceChildren();
    choices(tile, [["", "choose"], ...shapes.map((each) => [`${begin}${each})`, each])]);
    tile.value = [...tile.options].find((option) => option.value === state.e)?.value ?? "";
    tile.disabled = !shapes.length;
    value.textContent = found.value;
    value.classList.toggle("lines", found.value.includes("\n"));
    picture.replaceChildren();
    why.replaceChildren();
    const onselect = (sel) => {
      state.sel = sel;
      if (options.onstate) options.onstate(linkOf(state));
    };
    const scene = found.before ?? found.operands ?? found.scene;
    const cells = ["index", "coordinate"].includes(state.cells) ? state.cells : "";
    picture.classList.toggle("untitled", scene?.title === found.value);
    if (found.reason) put(picture, "p", { textContent: `No picture. Required: ${found.reason}.` });
    const sel = /^[TEO]\d{1,9}$/.test(found.sel) && found.sel[0] === scene?.link[0].toUpperCase() ? found.sel : "";
    if (scene) cutePy(put(picture, "div"), scene, { sel, onselect, cells, size: 26 });
    if (found.why) {
      const details = put(why, "details");
      put(details, "summary", { textContent: "how it was derived" });
      details.ontoggle = () => { if (details.children.length < 2) cutePy(put(details, "div"), found.why); };
    }
  };
  const refuse = (error) => {
    const facts = put(refused, "dl");
    for (const part of ["given", "required", "fix"]) {
      if (!error[part]) continue;
      put(facts, "dt", { textContent: part });
      put(facts, "dd", { textContent: error[part] });
    }
    tryThese(refused, error.repairs);
  };
  const tryThese = (parent, expressions) => {
    if (expressions.length) put(parent, "span", { textContent: "Try" });
    for (const e of expressions) put(parent, "button", { textContent: e, onclick: () => change({ e }) });
  };

  // -- controls
  const refresh = () => {
    if (text.value !== state.e) text.value = state.e;
    text.style.height = "";
    text.style.height = `${text.scrollHeight + 2}px`;
    by.value = state.by;
    cells.value = state.cells;
    bits.value = state.bits;
    compare.checked = !!state.was;
    const bms = state.e.match(SWIZZLE)?.slice(1) ?? ["", "", ""];
    swizzles.forEach((input, k) => { input.value = bms[k]; });
    const found = numbers();
    while (sliders.children.length > found.length) sliders.lastChild.remove();
    found.forEach(([at, n], k) => {
      const input = sliders.children[k]?.lastChild ?? labelled(sliders, "", "input", { type: "range", min: 0 });
      if (doc.activeElement !== input || +input.value !== n) input.max = Math.max(16, 2 * n, +input.max);
      input.value = n;
      input.parentNode.firstChild.textContent = n;
      input.setAttribute("aria-label", `integer ${k + 1}`);
      input.oninput = () => replaceNumber(k, input.value);
    });
    const begun = [...atoms.options].map((option) => option.value).filter((e) => e && state.e.startsWith(e.slice(0, -1)));
    atoms.value = begun.sort((a, b) => b.length - a.length)[0] ?? "";
    const kind = state.e.match(/^(mma|copy)\(/)?.[1];
    if (tiling.dataset.kind !== `${kind}`) {
      tiling.dataset.kind = `${kind}`;
      tiling.replaceChildren();
      choices(tiling, [["", "none"], ...(data.tilings[kind] ?? []).map((each) => [each, each])]);
      tiling.disabled = !kind;
    }
    tiling.value = [...tiling.options].map((option) => option.value).find((each) => each && state.e.includes(`,${each}`)) ?? "";
  };
  const SWIZZLE = /Sw<(\d+),(\d+),(-?\d+)>/;
  const numbers = () => [...state.e.matchAll(/<[^<>]*>|(?<![\w.])\d+(?![\w.])/g)] // Sw<3,0,3> has its own
    .filter(([found]) => found[0] !== "<" && found.length < 8).slice(0, 24).map((found) => [found.index, +found[0]]);
  const replaceNumber = (k, n) => {
    const [at, old] = numbers()[k];
    change({ e: state.e.slice(0, at) + n + state.e.slice(at).replace(/^\d+/, "") }, WAIT);
  };
  const choices = (select, texts) => texts.forEach(([value, textContent]) => put(select, "option", { value, textContent }));
  const by = labelled(controls, "colour by", "select", { onchange: () => change({ by: by.value }) });
  choices(by, [["", "default"], ...data.by.map((each) => [each, each])]);
  const cells = labelled(controls, "cells show", "select", { onchange: () => change({ cells: cells.value }) });
  choices(cells, [["", "value"], ["index", "index"], ["coordinate", "coordinate"]]);
  const bits = labelled(controls, "element bits", "input", { type: "number", min: 1, max: 1024, oninput: () => change({ bits: +bits.value }, WAIT) });
  const swizzle = put(controls, "fieldset");
  put(swizzle, "legend", { textContent: "swizzle" });
  const swizzles = ["B", "M", "S"].map((name) => labelled(swizzle, name, "input", { type: "number", min: name === "S" ? -16 : 0, max: 16, oninput: () => {
    const made = `Sw<${swizzles.map((input) => +input.value || 0)}>`;
    change({ e: SWIZZLE.test(state.e) ? state.e.replace(SWIZZLE, made) : `composition(${made},${state.e})` }, WAIT);
  } }));
  const arch = labelled(controls, "atoms of", "select", { onchange: () => listAtoms() });
  choices(arch, Object.keys(data.atoms).map((each) => [each, each]));
  const atoms = labelled(controls, "atom", "select", { onchange: () => { if (atoms.value) change({ e: atoms.value }); } });
  const listAtoms = () => {
    atoms.replaceChildren();
    put(atoms, "option", { value: "", textContent: "choose" });
    for (const kind of ["mma", "copy"]) {
      const group = put(atoms, "optgroup", { label: kind });
      choices(group, data.atoms[arch.value][kind].map((name) => [`${kind}(${name})`, name]));
    }
  };
  const tiling = labelled(controls, "tiling", "select", { onchange: () => {
    const [, kind, atom] = state.e.match(/^(mma|copy)\(\s*([^,()<>]*(?:<[^<>]*>)?)/);
    const wide = state.e.match(/,\s*bits=\d+/)?.[0] ?? "";
    change({ e: `${kind}(${atom}${tiling.value && `,${tiling.value}`}${wide})` });
  } });
  const tile = labelled(controls, "tile", "select", { disabled: true, onchange: () => { if (tile.value) change({ e: tile.value }); } });
  const compare = labelled(controls, "before and after", "input", { type: "checkbox", onchange: () => change({ was: compare.checked ? state.e : "" }) });
  put(search, "summary", { textContent: "Which layout has these offsets?" });
  const offsets = labelled(search, "offsets, a line for each row, or a printed table", "textarea", {
    rows: 4, spellcheck: false, maxLength: 1 << 16, placeholder: "0 4 1 5", oninput: () => { if (offsets.value.trim()) read({ find: offsets.value }); },
  });
  const openTab = (name) => {
    for (const tab of tabs.children) tab.setAttribute("aria-selected", tab.textContent === name);
    chips.replaceChildren();
    for (const preset of data.presets.filter(({ tab }) => tab === name)) {
      put(chips, "button", { textContent: preset.name, onclick: () => change({ ...data.plain, was: state.was, ...preset.state }) });
    }
  };
  for (const name of new Set(data.presets.map(({ tab }) => tab))) {
    put(tabs, "button", { textContent: name, onclick: () => openTab(name) }).setAttribute("role", "tab");
  }
  openTab(data.presets[0].tab);

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
  put(copies, "button", { textContent: "copy link", onclick: async () => {
    const link = linkOf(state), drawn = last?.[0] === link && !last[1].error ? `&d=${await packed(last[1])}` : "";
    copy("the link", (options.base?.() ?? "") + link + (drawn.length <= LONGEST ? drawn : ""));
  } });
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
  text.oninput = ({ inputType }) => {
    if (inputType === "insertFromPaste") return read({ read: text.value });
    suggest();
    change({ e: text.value }, WAIT);
  };
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

  // -- what there is: notation, functions, version
  const about = put(root, "details", { className: "about" });
  put(about, "summary", { textContent: "notation, functions, version" });
  about.ontoggle = () => {
    if (about.children.length > 1) return;
    const rows = (parent, pairs) => pairs.forEach(([term, text]) => {
      put(put(parent, "dt"), "button", { textContent: term, onclick: () => change({ e: parent === notation ? term : `${term}(` }) });
      put(parent, "dd", { textContent: text });
    });
    const notation = put(about, "dl");
    rows(notation, data.notation);
    const search = labelled(about, "functions", "input", { type: "search", oninput: () => list(search.value) });
    const functions = put(about, "dl");
    const list = (part) => {
      functions.replaceChildren();
      rows(functions, data.functions.filter(([name, text]) => `${name} ${text}`.toLowerCase().includes(part.toLowerCase())));
    };
    list("");
    put(about, "p", { textContent: `${data.version}. In Python, help(cute.NAME) says more of a function; docs/explorer.md and docs/glossary.md are of this page and of the terms.` });
  };

  // -- begin
  arch.value = "sm_80";
  listAtoms();
  const open = (link) => {
    state = link.length > 1 ? stateOf(link) : { ...data.plain, ...data.presets[0].state };
    shown = "";
    refresh();
    send();
    const drawn = link.match(/&d=([\w-]+)/)?.[1];
    if (drawn) showPacked(drawn);
  };
  return { open, say, state: () => ({ ...state }) };
};
const WAIT = 100; // milliseconds after the last key
const STEP = 1500; // milliseconds between keys of two steps of the history
const LONGEST = 8000; // characters of the answer in a link
