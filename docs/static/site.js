// Live pictures follow the site's own switch between light and dark, as they follow JupyterLab's.
addEventListener("DOMContentLoaded", () => {
  const { dataset } = document.body;
  const follow = () => {
    if (dataset.theme === "auto") delete dataset.jpThemeLight;
    else dataset.jpThemeLight = dataset.theme === "light";
  };
  new MutationObserver(follow).observe(document.body, { attributeFilter: ["data-theme"] });
  follow();
  document.querySelectorAll("div.highlight").forEach(addCopyButton);
});

// What is pasted runs: examples lose their prompts and outputs, kernels the marks and numbers of lines.
function codeOf(block) {
  const lines = block.querySelector("pre").textContent.replace(/\n+$/, "").split("\n");
  const prompts = block.closest(".highlight-console") ? /^\$ / : /^(>>>|\.\.\.)( |$)/;
  const typed = lines.filter((line) => prompts.test(line));
  if (typed.length) return typed.map((line) => line.replace(prompts, "")).join("\n");
  if (block.closest(".highlight-diff")) return lines.map((line) => line.slice(6)).join("\n");
  return lines.join("\n");
}

function addCopyButton(block) {
  const button = document.createElement("button");
  button.className = "copy";
  button.type = "button";
  button.textContent = "Copy";
  button.setAttribute("aria-label", "Copy this code");
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(codeOf(block) + "\n");
    button.textContent = "Copied";
    setTimeout(() => (button.textContent = "Copy"), 1500);
  });
  block.append(button);
}
