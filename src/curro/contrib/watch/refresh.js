// Show the page anew when it has changed, and keep open what the reader has opened.
setInterval(async () => {
  const version = document.body.dataset.version;
  try {
    const answer = await fetch(location.href, { headers: { "If-None-Match": `"${version}"` }, cache: "no-store" });
    if (answer.status !== 200 || document.body.dataset.version !== version) return;
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    for (const open of document.querySelectorAll("details[open][id]")) {
      page.getElementById(open.id)?.setAttribute("open", "");
    }
    document.title = page.title;
    document.body.replaceWith(page.body);
  } catch {
    document.getElementById("live").textContent = "no longer live: curro watch has ended";
  }
}, 2000);
