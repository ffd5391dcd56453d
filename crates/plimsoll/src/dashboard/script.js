// Reads the page again when its objects change, and every 30 s, unless an element of it has the focus. Copies
// manifests.
const box = document.getElementById("refresh");
const isBusy = () =>
  !box.checked || document.hidden || document.querySelector("main").contains(document.activeElement);
let isReading = false;
const refresh = async () => {
  if (isReading || isBusy()) return;
  isReading = true;
  try {
    const response = await fetch(location.href);
    const page = new DOMParser().parseFromString(await response.text(), "text/html");
    const next = page.querySelector("main");
    // A visitor may have begun to write meanwhile.
    if (next && !isBusy()) document.querySelector("main").replaceWith(next);
  } catch {
    // The dashboard has ended; the next attempt is in 30 s.
  }
  isReading = false;
};
setInterval(refresh, 30000);
let changes;
const follow = () => {
  changes?.close();
  if (!box.dataset.changes || !box.checked || document.hidden) return;
  changes = new EventSource(box.dataset.changes);
  changes.onmessage = refresh;
};
box.addEventListener("change", follow);
document.addEventListener("visibilitychange", follow);
follow();
document.addEventListener("click", (event) => {
  if (event.target.matches("button.copy")) {
    navigator.clipboard.writeText(event.target.nextElementSibling.textContent);
    event.target.textContent = "Copied";
  }
});
