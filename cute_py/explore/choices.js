// A slider or a menu for each choice, and for each combination of them, the last one running fastest,
// a picture or an error.
const cutePyChoices = (host, { choices, frames }) => {
  const put = (parent, tag, css = "", props = {}) => {
    const made = Object.assign(host.ownerDocument.createElement(tag), props);
    made.style.cssText = css;
    return parent.appendChild(made);
  };
  const MONO = "font:13px ui-monospace,monospace;overflow-wrap:anywhere";
  const packed = Uint8Array.from(atob(frames), (c) => c.charCodeAt(0));
  const unpacked = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  const row = put(host, "div", "display:flex;flex-wrap:wrap;gap:6px 18px;margin:6px 0;font:13px system-ui,sans-serif");
  const said = put(host, "div", MONO), place = put(host, "div");
  said.setAttribute("role", "status");
  let shown = null, sel = "";
  const inputs = choices.map(({ name, values, first }) => {
    const label = put(row, "label", "display:flex;gap:6px;align-items:center", { textContent: name });
    const slides = values.every((value) => /^-?\d+$/.test(value));
    const input = put(label, slides ? "input" : "select", "", slides ? { type: "range", min: 0, max: values.length - 1 } : {});
    if (!slides) values.forEach((textContent, value) => put(input, "option", "", { value, textContent }));
    const output = put(label, "output", `min-width:3ch;${MONO}`);
    input.value = first;
    input.setAttribute("aria-label", name);
    input.oninput = () => { output.textContent = slides ? values[input.value] : ""; step(); };
    return input;
  });
  const step = () => {
    if (!shown) return;
    const { text, scene, error } = shown[choices.reduce((n, { values }, k) => n * values.length + +inputs[k].value, 0)];
    said.textContent = text;
    place.replaceChildren();
    for (const part of error ? ["given", "required", "fix"] : []) put(place, "div", MONO, { textContent: `${part}: ${error[part]}` });
    const kept = sel[0] === scene?.link[0].toUpperCase() ? sel : "";
    if (scene) cutePy(put(place, "div"), scene, { sel: kept, onselect: (found) => { sel = found; } });
  };
  inputs.forEach((input) => input.oninput());
  new Response(unpacked).json().then((found) => { shown = found; step(); });
};
