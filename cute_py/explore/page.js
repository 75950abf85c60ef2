// The page: Python in a worker, and a second one kept warm; the state is the address's fragment.
const cutePyPython = async (data) => {
  const parts = {};
  const typed = async (name, response) => {
    const [, ending] = name.match(/\.(\w+)$/);
    const type = { mjs: "text/javascript", wasm: "application/wasm" }[ending] ?? "application/octet-stream";
    if (!response.ok) throw new Error(`${name}: ${response.status}`);
    return new Blob([await response.arrayBuffer()], { type });
  };
  const read = async (name) => {
    const encoded = document.getElementById(name).textContent;
    const packed = await fetch(`data:application/octet-stream;base64,${encoded}`);
    return typed(name, new Response(packed.body.pipeThrough(new DecompressionStream("gzip"))));
  };
  const load = async (name, integrity) => { // refuses files with another hash
    const options = { integrity, mode: "cors", credentials: "omit" };
    return typed(name, await fetch(new URL(name, new URL(data.base, document.baseURI)), options));
  };
  const one = async ([name, integrity]) => [name, await (data.base ? load(name, integrity) : read(name))];
  parts.files = Object.fromEntries(await Promise.all(Object.entries(data.files).map(one)));
  parts.sources = data.sources ? new URL(data.sources, document.baseURI).href : await read("cute_py.zip");
  parts.warm = data.warm;
  const script = location.protocol === "file:" // where a blob makes no module worker
    ? `data:text/javascript,${encodeURIComponent(data.worker)}`
    : URL.createObjectURL(new Blob([data.worker], { type: "text/javascript" }));
  const begin = () => {
    const worker = new Worker(script, { type: "module" });
    const next = () => new Promise((resolve, reject) => {
      worker.onmessage = ({ data: said }) => said.warm ? (worker.isWarm = true) : said.failed ? reject(new Error(said.failed)) : resolve(said);
      worker.onerror = (event) => reject(new Error(event.message || "the worker ended"));
    });
    const ready = next();
    worker.postMessage(parts);
    return { worker, next, ready };
  };
  const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
  let now = begin(), spare = null, tail = Promise.resolve();
  const page = document.documentElement.dataset; // for those who watch
  const keepWarm = () => now.ready.then(() => pause(1000)).then(() => (spare ??= begin()).ready).then(() => { page.spare = "ready"; }, () => {});
  keepWarm();
  const run = async (state, isStale) => {
    await now.ready;
    if (isStale()) return null;
    const reply = now.next();
    now.worker.postMessage(state);
    let timer;
    const limit = data.limit * (now.worker.isWarm ? 1 : 5); // first answers import what they need
    const late = new Promise((resolve) => { timer = setTimeout(resolve, limit); });
    const said = await Promise.race([reply.catch((error) => ({ failed: error.message })), late]);
    clearTimeout(timer);
    if (said?.answer) return said.answer;
    now.worker.terminate();
    now = spare ?? begin();
    spare = null;
    delete page.spare;
    keepWarm();
    return said ? { v: 1, error: { ...data.failed, given: said.failed } } : { v: 1, error: data.slow };
  };
  return {
    ready: now.ready,
    ask: (state, isStale) => tail = tail.catch(() => {}).then(() => run(state, isStale)),
  };
};

// Python in the process that the page came from, as of `cute-py explore`.
const cutePyLocal = async (data) => ({
  ready: Promise.resolve(),
  ask: async (state) => {
    const signal = AbortSignal.timeout(5 * data.limit);
    const response = await fetch("answer", { method: "POST", body: JSON.stringify(state), signal }).catch(() => null);
    if (!response) return { v: 1, error: signal.aborted ? data.slow : { ...data.failed, given: "cute-py explore has ended", fix: "start it again" } };
    return response.json();
  },
});

{
  const data = JSON.parse(document.getElementById("data").textContent);
  let python = null, started = false;
  const explorer = cutePyExplorer(document.getElementById("explorer"), data, async (state, isStale) => {
    try {
      return await (await python).ask(state, isStale);
    } catch (error) {
      explorer.say(`Python did not start: ${error.message}`);
      return null;
    }
  }, {
    waiting: () => started ? "" : "Python is starting; this takes some seconds.",
    onstate: (link, isStep) => {
      try {
        history[isStep ? "pushState" : "replaceState"](null, "", link);
      } catch { /* in a frame that may not change its address */ }
    },
    base: () => location.href.split("#")[0],
  });
  python = data.local ? cutePyLocal(data) : cutePyPython(data);
  python.then(({ ready }) => ready).then(() => {
    started = true;
    document.documentElement.dataset.python = "ready";
  }, () => {});
  addEventListener("hashchange", () => explorer.open(location.hash));
  explorer.open(location.hash);
}
