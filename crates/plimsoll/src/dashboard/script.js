// Refreshes the page every 30 s, unless an element of it has the focus. Copies manifests.
const refresh = async () => {
  const box = document.getElementById("refresh");
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
document.addEventListener("click", (event) => {
  if (event.target.matches("button.copy")) {
    navigator.clipboard.writeText(event.target.nextElementSibling.textContent);
    event.target.textContent = "Copied";
  }
});
