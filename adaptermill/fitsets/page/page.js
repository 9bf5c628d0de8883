"use strict";
// Hides and shows the examples that are in the page; makes no markup and asks for nothing.
const form = document.getElementById("filters");
const articles = [...document.querySelectorAll("article")];
const chips = [...document.querySelectorAll(".group")];

function show() {
  const wanted = new FormData(form);
  const text = wanted.get("text").trim().toLowerCase();
  let count = 0;
  for (const article of articles) {
    const fits =
      ["status", "reason", "family"].every(
        (name) => !wanted.get(name) || article.dataset[name] === wanted.get(name),
      ) &&
      (!text || article.textContent.toLowerCase().includes(text));
    article.hidden = !fits;
    count += fits;
  }
  document.getElementById("count").textContent = `${count} of ${articles.length}`;
  document.getElementById("none").hidden = count > 0;
  for (const chip of chips) {
    const chosen = chip.dataset.reason === wanted.get("reason");
    chip.setAttribute("aria-pressed", String(chosen));
  }
}

form.addEventListener("input", (event) => {
  const { name, value } = event.target;
  const reason = form.elements.reason;
  const status = reason.selectedOptions[0].dataset.status;
  // A reason belongs to one status: the later choice wins.
  if (name === "reason" && status && form.elements.status.value) {
    form.elements.status.value = status;
  } else if (name === "status" && value && status && status !== value) {
    reason.value = "";
  }
  show();
});
form.addEventListener("submit", (event) => event.preventDefault());
form.addEventListener("reset", () => setTimeout(show));
for (const chip of chips) {
  chip.addEventListener("click", () => {
    const chosen = chip.getAttribute("aria-pressed") === "true";
    form.elements.status.value = "";
    form.elements.reason.value = chosen ? "" : chip.dataset.reason;
    show();
  });
}
document.addEventListener("click", (event) => {
  const picture = event.target.closest(".picture");
  if (picture) {
    const large = picture.closest(".sides").classList.toggle("large");
    picture.setAttribute("aria-pressed", String(large));
  }
  const link = event.target.closest("a[href^='#']");
  if (link) {
    // An example that is filtered away could not be jumped to.
    const article = document.getElementById(link.getAttribute("href").slice(1));
    if (article && article.hidden) {
      form.reset();
    }
  }
});
// A browser may have kept the filters of an earlier visit.
show();
