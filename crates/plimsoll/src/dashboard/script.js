// Reads the page again when its objects change, and every 30 s, unless an element of it has the focus. Copies
// manifests.
const box = document.getElementById("refresh");
const refresh = async () => {
  const main = document.querySelector("main");
  if (!box.checked || document.hidden || main.contains(document.activeElement)) return;
  try {
    const response = await fetch(location.href);
    const page = new DOMParser().parseFromString(await response.text(), "text/html");
    const next = page.querySelector("main");
    if (next) main.replaceWith(next);
  } catch {
    // The dashboard has ended; the next attempt is in 30 s.
  }
};
setInterval(refresh, 30000);
new EventSource(box.dataset.changes).onmessage = refresh;
document.addEventListener("click", (event) => {
  if (event.target.matches("button.copy")) {
    navigator.clipboard.writeText(event.target.nextElementSibling.textContent);
    event.target.textContent = "Copied";
  }
});
