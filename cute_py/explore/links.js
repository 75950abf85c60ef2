// Links, as in states.py: fragments of an address, which a reader can read. A link that is copied also
// has "d", its answer, which shows before Python has started.
const cutePyLinks = (data) => {
  const quoted = (text) => encodeURIComponent(text.toWellFormed ? text.toWellFormed() : text)
    .replace(/%(2C|3A|3C|3E|40|2B|5B|5D|3D)/g, decodeURIComponent)
    .replace(/[!']/g, (c) => `%${c.charCodeAt(0).toString(16)}`);
  const linkOf = (state) => [`#v${state.v}`, ...data.entries.filter((name) => name === "e" || `${state[name]}` !== `${data.plain[name]}`)
    .map((name) => `${name}=${quoted(`${state[name]}`)}`)].join("&");
  const unquoted = (text) => {
    try { return decodeURIComponent(text); } catch { return text; } // broken codes stay as they are
  };
  const packed = async (answer) => {
    const { v, value, scene, operands, before, pattern, reason, hint, tries } = answer;
    const json = JSON.stringify({ v, value, scene: operands || before ? null : scene, operands: before ? null : operands, before, pattern, reason, hint, tries });
    const stream = new Blob([json]).stream().pipeThrough(new CompressionStream("deflate-raw"));
    const bytes = new Uint8Array(await new Response(stream).arrayBuffer());
    return btoa([...bytes].map((byte) => String.fromCharCode(byte)).join("")).replace(/[+/=]/g, (c) => ({ "+": "-", "/": "_" })[c] ?? "");
  };
  const unpacked = async (text) => {
    const bytes = Uint8Array.from(atob(text.replace(/[-_]/g, (c) => ({ "-": "+", _: "/" })[c])), (c) => c.charCodeAt(0));
    const reader = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw")).pipeThrough(new TextDecoderStream()).getReader();
    let made = "";
    for (let part = await reader.read(); !part.done; part = await reader.read()) {
      made += part.value;
      if (made.length > 1 << 20) return null; // a link may say anything
    }
    const answer = JSON.parse(made);
    return typeof answer.value === "string" ? answer : null;
  };
  const number = (text) => /^\d{1,9}$/.test(text) ? +text : text;
  const stateOf = (link) => {
    const [version, ...entries] = link.replace(/^#/, "").split("&");
    const found = { ...data.plain, v: number(version.replace(/^v/, "")) };
    for (const entry of entries) {
      const at = entry.indexOf("="), name = at < 0 ? entry : entry.slice(0, at);
      const value = unquoted(at < 0 ? "" : entry.slice(at + 1));
      if (data.entries.includes(name)) found[name] = name === "bits" ? number(value) : value;
    }
    return found;
  };
  return { linkOf, stateOf, packed, unpacked };
};
