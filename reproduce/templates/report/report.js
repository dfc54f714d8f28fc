"use strict";
// Better with a script: one tooltip for all numbers, one tab stop per block, filters for claims.

const tip = document.createElement("div");
tip.id = "tip";
tip.setAttribute("role", "tooltip");
tip.hidden = true;
document.body.append(tip);

const hide = () => { tip.hidden = true; };

function show(number) {
  tip.textContent = number.dataset.origin;
  tip.hidden = false;
  const at = number.getBoundingClientRect(), size = tip.getBoundingClientRect();
  const below = at.bottom + size.height < innerHeight;
  tip.style.left = `${Math.max(8, Math.min(at.left, document.documentElement.clientWidth - size.width - 8))}px`;
  tip.style.top = `${below ? at.bottom : Math.max(0, at.top - size.height)}px`;
}

// Tab goes from block to block, the arrow keys from number to number: a page has hundreds.
const block = (number) => number.closest("table, form, figure, ul, section, p");
const members = new Map();
for (const number of document.querySelectorAll("[data-id]")) {
  number.dataset.origin = number.title;
  number.removeAttribute("title");
  if (number.matches("select")) continue;
  const others = members.get(block(number));
  number.tabIndex = others ? -1 : 0;
  if (others) others.push(number); else members.set(block(number), [number]);
}

function move(from, to) {
  from.tabIndex = -1;
  to.tabIndex = 0;
}

document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") hide();
  const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
  const number = event.target;
  if (!step || !number.matches("[data-id]") || number.matches("select")) return;
  const seen = members.get(block(number)).filter((one) => one.checkVisibility());
  const next = seen[seen.indexOf(number) + step];
  if (!next) return;
  event.preventDefault();
  move(number, next);
  next.focus();
});
document.addEventListener("focusin", (event) => {
  if (!event.target.matches("[data-id]")) return;
  show(event.target);
  event.target.setAttribute("aria-describedby", "tip");
});
document.addEventListener("focusout", (event) => {
  event.target.removeAttribute("aria-describedby");
  hide();
});
document.addEventListener("pointerover", (event) => {
  const number = event.target.closest("[data-id], #tip");
  if (!number) hide(); else if (number !== tip) show(number);
});
// A number that gets the focus may be scrolled into sight: its tip goes along.
document.addEventListener("scroll", () => {
  if (!tip.hidden && document.activeElement.matches("[data-id]")) show(document.activeElement); else hide();
}, { capture: true, passive: true });

for (const form of document.querySelectorAll("form.filters")) {
  const table = form.nextElementSibling.querySelector("table");
  const rows = [...table.tBodies[0].rows];
  const shown = form.querySelector("output"), everything = shown.textContent;
  const filter = () => {
    const wanted = Object.fromEntries(new FormData(form));
    const text = wanted.text.trim().toLowerCase();
    let count = 0;
    for (const row of rows) {
      const fits = ["verdict", "own", "section"].every((key) => !wanted[key] || row.dataset[key] === wanted[key]);
      row.hidden = !fits || !row.textContent.toLowerCase().includes(text);
      count += !row.hidden;
    }
    shown.textContent = count === rows.length ? everything : `${count} of ${rows.length} claims`;
    const numbers = members.get(table) || [];
    const first = numbers.find((one) => one.checkVisibility());
    for (const one of numbers) one.tabIndex = one === first ? 0 : -1;
  };
  form.addEventListener("input", filter);
  form.addEventListener("reset", () => setTimeout(filter));
  form.addEventListener("submit", (event) => event.preventDefault());
  form.hidden = false;
}
