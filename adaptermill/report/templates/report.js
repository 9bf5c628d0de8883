// Shows one metric at a time, and the steps of the gallery that the filters ask for.
"use strict";

const all = (selector, root = document) => Array.from(root.querySelectorAll(selector));
const byId = (name) => document.getElementById(name);

function showMetric() {
  const chosen = byId("metric").value;
  for (const part of all("[data-metric]")) part.hidden = part.dataset.metric !== chosen;
}

function filterSteps() {
  const family = byId("by-family").value;
  const adapter = byId("by-adapter").value;
  const verdict = byId("by-verdict").value;
  const asked = (part) =>
    (!adapter || part.dataset.adapters.split(" ").includes(adapter)) &&
    (!verdict || part.dataset.right === verdict);
  let shown = 0;
  const steps = all(".step");
  for (const step of steps) {
    let answers = 0;
    for (const part of all("[data-adapters]", step)) {
      part.toggleAttribute("hidden", !asked(part));
      if (part.classList.contains("answer") && asked(part)) answers += 1;
    }
    const wanted = answers > 0 || (!adapter && !verdict);
    step.hidden = !wanted || Boolean(family && step.dataset.family !== family);
    if (!step.hidden) shown += 1;
  }
  byId("shown").textContent = `${shown} of ${steps.length} steps`;
  byId("none").hidden = shown > 0 || steps.length === 0;
}

if (byId("metric")) {
  byId("metric").addEventListener("change", showMetric);
  showMetric();
}
if (byId("by-family")) {
  for (const name of ["by-family", "by-adapter", "by-verdict"]) {
    byId(name).addEventListener("change", filterSteps);
  }
  byId("filters").addEventListener("submit", (event) => event.preventDefault());
  filterSteps();
}
