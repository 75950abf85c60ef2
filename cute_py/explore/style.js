// How the explorer looks, in light and dark.
const STYLE = `
.explorer {
  color-scheme: light dark;
  --ink: light-dark(#1b1f24, #e6e9ed); --soft: light-dark(#57606a, #9da7b3); --line: light-dark(#d3d9e0, #3b424b);
  --field: light-dark(#fff, #181c21); --fill: light-dark(#f3f5f8, #20252b); --accent: light-dark(#0b5cc0, #74b4ff);
  --bad: light-dark(#b3001b, #ff9b93); --code: ui-monospace, SFMono-Regular, Menlo, Consolas, monospace;
  display: flex; flex-direction: column; max-width: 1060px; color: var(--ink); font: 14px/1.5 system-ui, -apple-system, "Segoe UI", sans-serif; accent-color: var(--accent);
}
.explorer, .explorer * { box-sizing: border-box; }
.explorer [hidden] { display: none; }
.explorer button, .explorer select, .explorer input[type=number], .explorer textarea {
  font: inherit; color: inherit; background: var(--field); border: 1px solid var(--line); border-radius: 6px; min-height: 32px; padding: 3px 9px; margin: 0;
}
.explorer button { background: var(--fill); cursor: pointer; }
.explorer button:hover, .explorer select:hover { border-color: var(--accent); }
.explorer :focus-visible { outline: 2px solid var(--accent); outline-offset: 1px; }
.explorer select:disabled { opacity: 0.55; }
.explorer .tabs { display: flex; flex-wrap: wrap; gap: 2px 4px; border-bottom: 1px solid var(--line); }
.explorer .tabs button { background: none; border: 0; border-bottom: 2px solid transparent; border-radius: 0; color: var(--soft); padding: 4px 10px; }
.explorer .tabs button[aria-selected=true] { border-color: var(--accent); color: var(--ink); font-weight: 600; }
.explorer .chips { display: flex; flex-wrap: wrap; gap: 6px; margin: 10px 0; }
.explorer .chips button { border-radius: 16px; padding: 3px 12px; }
.explorer .entry { position: relative; }
.explorer textarea { display: block; width: 100%; padding: 10px 12px; font: 16px/1.45 var(--code); resize: vertical; border-color: light-dark(#8c959f, #6b7580); overflow-wrap: anywhere; }
.explorer ul { position: absolute; z-index: 1; margin: 2px 0 0; padding: 4px; list-style: none; background: var(--field); border: 1px solid var(--line); border-radius: 6px; box-shadow: 0 4px 14px #0003; }
.explorer li { margin: 0; padding: 2px 10px; border-radius: 4px; cursor: pointer; font: 14px/1.6 var(--code); }
.explorer li[aria-selected=true] { background: var(--accent); color: light-dark(#fff, #0d1116); }
.explorer label { display: flex; flex-direction: column; gap: 2px; margin: 0; }
.explorer label > span, .explorer legend { color: var(--soft); font-size: 12px; line-height: 1.4; padding: 0; }
.explorer .sliders { display: flex; flex-wrap: wrap; gap: 4px 14px; margin: 10px 0; }
.explorer .sliders label { flex-direction: row; align-items: center; gap: 6px; }
.explorer .sliders span { color: var(--ink); font: 13px var(--code); min-width: 2ch; text-align: right; }
.explorer .sliders input { width: 84px; margin: 0; }
.explorer .controls { display: flex; flex-wrap: wrap; gap: 8px 12px; align-items: end; padding: 10px 12px; border: 1px solid var(--line); border-radius: 8px; }
.explorer .controls select { max-width: 15em; }
.explorer input[type=number] { width: 5em; }
.explorer fieldset { display: flex; gap: 6px; border: 0; margin: 0; padding: 0; min-width: 0; }
.explorer fieldset label { flex-direction: row; align-items: center; gap: 4px; }
.explorer fieldset input[type=number] { width: 4em; }
.explorer .status { min-height: 1.5em; margin: 6px 0; color: var(--soft); font-size: 13px; }
.explorer .refused { border: 1px solid var(--line); border-left: 4px solid var(--bad); border-radius: 6px; padding: 10px 14px; margin-bottom: 14px; background: var(--fill); }
.explorer dl { display: grid; grid-template-columns: max-content 1fr; gap: 4px 12px; margin: 0; }
.explorer dt { color: var(--bad); font-weight: 600; }
.explorer dd { margin: 0; white-space: pre-wrap; overflow-wrap: anywhere; font: 13px/1.55 var(--code); }
.explorer .refused > span { color: var(--soft); margin-right: 6px; }
.explorer .refused > button { margin: 8px 6px 0 0; font: 13px/1.4 var(--code); text-align: left; overflow-wrap: anywhere; background: var(--field); border-color: var(--accent); }
.explorer .search { margin-top: 8px; color: var(--soft); }
.explorer .search textarea { font-size: 14px; margin-bottom: 8px; color: var(--ink); }
.explorer input[type=checkbox] { width: 20px; height: 20px; margin: 6px 0; }
.explorer .hinted { margin-bottom: 10px; color: var(--soft); }
.explorer .hinted > span { margin-right: 6px; }
.explorer .hinted > button { margin: 2px 6px 2px 0; font: 13px/1.4 var(--code); text-align: left; overflow-wrap: anywhere; }
.explorer .about { margin-top: 18px; color: var(--soft); }
.explorer .about dl { margin: 10px 0; align-items: baseline; }
.explorer .about dt button { font: 13px/1.4 var(--code); min-height: 24px; padding: 0 7px; overflow-wrap: anywhere; text-align: left; }
.explorer .about dd { font: inherit; }
.explorer .about dl { grid-template-columns: minmax(9em, max-content) 1fr; }
.explorer input[type=search] { font: inherit; color: inherit; background: var(--field); border: 1px solid var(--line); border-radius: 6px; min-height: 32px; padding: 3px 9px; max-width: 18em; }
.explorer .head { display: flex; flex-wrap: wrap; gap: 8px 16px; justify-content: space-between; align-items: start; margin-bottom: 10px; }
.explorer .value { font: 600 16px/1.5 var(--code); overflow-wrap: anywhere; white-space: pre-wrap; min-width: 0; max-height: 14em; overflow-y: auto; }
.explorer .lines { font: 13px/1.5 var(--code); }
.explorer .copies { display: flex; flex-wrap: wrap; gap: 6px; }
.explorer .copies button { font-size: 13px; min-height: 28px; padding: 1px 9px; }
.explorer .untitled > div > div > div:first-child { display: none; }
.explorer .cute-py [role=status] { position: sticky; bottom: 0; padding: 4px 0; background: var(--jp-layout-color0, light-dark(#fff, #14171a)); }
.explorer .why { margin-top: 6px; }
.explorer summary { cursor: pointer; }
.explorer .old .value, .explorer .old .cute-py, .explorer .old .why { opacity: 0.35; }
@media (max-width: 640px) {
  .explorer .tabs, .explorer .chips { flex-wrap: nowrap; overflow-x: auto; white-space: nowrap; scrollbar-width: none; }
  .explorer .controls { order: 1; margin-top: 16px; }
}
`;
