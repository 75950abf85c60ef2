// Live pictures follow the site's own switch between light and dark, as they follow JupyterLab's.
addEventListener("DOMContentLoaded", () => {
  const { dataset } = document.body;
  const follow = () => {
    if (dataset.theme === "auto") delete dataset.jpThemeLight;
    else dataset.jpThemeLight = dataset.theme === "light";
  };
  new MutationObserver(follow).observe(document.body, { attributeFilter: ["data-theme"] });
  follow();
});
