const box = document.querySelector(".filter");
const input = box.querySelector("input");
const result = box.querySelector("[role=status]");
const rows = [...document.querySelectorAll("[data-row]")].map(row => ({
  row,
  text: `${row.textContent} ${row.dataset.row}`.toLowerCase(),
}));
const groups = [...document.querySelectorAll("details")];
const sections = [...document.querySelectorAll("section")];
let timer;
const filter = () => {
  const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
  let shown = 0;
  for (const { row, text } of rows) {
    row.hidden = !words.every(word => text.includes(word));
    if (!row.hidden) shown++;
  }
  const has = part => part.querySelector("[data-row]:not([hidden])") !== null;
  for (const section of sections) section.hidden = words.length > 0 && !has(section);
  for (const group of groups) {
    const matches = has(group);
    group.hidden = words.length > 0 && !matches;
    group.open = words.length > 0 && matches;
  }
  result.textContent = words.length === 0 ? "" : `${shown} of ${rows.length} entries`;
};
input.addEventListener("input", () => {
  clearTimeout(timer);
  timer = setTimeout(filter, 120);
});
const seconds = Number(document.body.dataset.refresh);
if (seconds > 0)
  setInterval(() => {
    if (!input.value && !groups.some(group => group.open)) location.reload();
  }, seconds * 1000);
box.hidden = false;
if (input.value) filter();
