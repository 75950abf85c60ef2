// Python in a module worker. The first message says where the runtime is, `base` or `files` (blobs
// by name), and has the `sources` of cute_py, a zip; the others are states, answered in their order.
const start = async ({ base, files, sources, warm }) => {
  const options = { indexURL: base };
  let entry = `${base}pyodide.mjs`;
  if (files) { // of a page that is one file
    const link = (name) => URL.createObjectURL(files[name]);
    const real = self.fetch;
    self.fetch = (url, ...more) => {
      const file = files[`${url.url ?? url}`.split("/").pop()];
      return file ? Promise.resolve(new Response(file)) : real(url, ...more);
    };
    options.lockFileContents = await files["pyodide-lock.json"].text();
    options.createPyodideModule = (await import(link("pyodide.asm.mjs"))).default;
    entry = link("pyodide.mjs");
  }
  const { loadPyodide } = await import(entry);
  const python = await loadPyodide(options);
  const zip = typeof sources === "string" ? await (await fetch(sources)).arrayBuffer()
    : await sources.arrayBuffer();
  python.unpackArchive(zip, "zip", { extractDir: "/cute_py_sources" });
  const answer = python.runPython(`
import json, sys
sys.path.insert(0, "/cute_py_sources")
from cute_py.explore import answer
lambda text: json.dumps(answer(json.loads(text)))
`);
  for (const state of warm) answer(JSON.stringify(state)); // what it imports takes seconds
  return answer;
};

let answer;
self.onmessage = async ({ data }) => {
  try {
    if (!answer) {
      answer = await start(data);
      self.postMessage({ ready: true });
    } else self.postMessage({ answer: JSON.parse(answer(JSON.stringify(data))) });
  } catch (error) { // its last line says what went wrong
    self.postMessage({ failed: `${error.message ?? error}`.trim().split("\n").pop() });
  }
};
