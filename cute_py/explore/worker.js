// Python in a module worker. The first message has the runtime, `files` (blobs by name), and the
// `sources` of cute_py, a zip; the others are states, answered in their order.
const start = async ({ files, sources }) => {
  const zip = (typeof sources === "string" ? fetch(sources) : Promise.resolve(new Response(sources)))
    .then((found) => found.arrayBuffer());
  const link = (name) => URL.createObjectURL(files[name]);
  const real = self.fetch;
  self.fetch = (url, ...more) => {
    const file = files[`${url.url ?? url}`.split("/").pop()];
    return file ? Promise.resolve(new Response(file)) : real(url, ...more);
  };
  const options = { indexURL: "https://runtime.invalid/" }; // all of it is in the files
  options.lockFileContents = await files["pyodide-lock.json"].text();
  options.createPyodideModule = (await import(link("pyodide.asm.mjs"))).default;
  const { loadPyodide } = await import(link("pyodide.mjs"));
  const python = await loadPyodide(options);
  python.unpackArchive(await zip, "zip", { extractDir: "/cute_py_sources" });
  const answer = python.runPython(`
import json, sys
sys.path.insert(0, "/cute_py_sources")
from cute_py.explore import answer
lambda text: json.dumps(answer(json.loads(text)))
`);
  return answer;
};

// What answers import takes seconds: after the first answer, one at a time between others.
const warmUp = ([state, ...others]) => setTimeout(() => {
  if (!state) return self.postMessage({ warm: true });
  answer(JSON.stringify(state));
  warmUp(others);
}, 50);

let answer;
self.onmessage = async ({ data }) => {
  try {
    if (!answer) {
      answer = await start(data);
      self.postMessage({ ready: true });
      warmUp(data.warm);
    } else self.postMessage({ answer: JSON.parse(answer(JSON.stringify(data))) });
  } catch (error) { // its last line says what went wrong
    self.postMessage({ failed: `${error.message ?? error}`.trim().split("\n").pop() });
  }
};
