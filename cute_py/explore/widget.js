// The notebook: states go to the kernel as messages, and answers come back.
export default {
  render({ model, el }) {
    const waiting = new Map();
    let last = 0;
    const receive = ({ id, answer }) => {
      waiting.get(id)?.(answer);
      waiting.delete(id);
    };
    model.on("msg:custom", receive);
    const ask = (state) => new Promise((resolve) => {
      waiting.set(++last, resolve);
      model.send({ id: last, state });
    });
    const explorer = cutePyExplorer(el, JSON.parse(model.get("data")), ask, {
      onstate: (link) => {
        model.set("link", link);
        model.save_changes();
      },
    });
    explorer.open(model.get("link"));
    return () => model.off("msg:custom", receive);
  },
};
