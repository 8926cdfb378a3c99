// Interactive parts of the page: keyboard shortcuts, copying, live updates, sign-in by code.
// Rule: content of artifacts is never turned into HTML here.
(() => {
  "use strict";
  const all = (selector, from = document) => [...from.querySelectorAll(selector)];
  const one = (selector) => document.querySelector(selector);

  const say = (text) => {
    const said = one("#said");
    said.textContent = text;
    clearTimeout(say.timer);
    say.timer = setTimeout(() => { said.textContent = ""; }, 2500);
  };
  const copy = async (text) => {
    try {
      await navigator.clipboard.writeText(text);
      say(`Copied ${text.length > 60 ? "it" : text}`);
    } catch {
      say("The browser does not allow copying.");
    }
  };

  // Sign in by the code after the #, which is only sent in the form.
  const enter = one("#enter");
  const code = new URLSearchParams(location.hash.slice(1)).get("code");
  if (enter && code) {
    history.replaceState(null, "", location.pathname + location.search);
    enter.elements.key.value = code;
    enter.submit();
    return;
  }
  // The path of the session is stored for this origin, which unlike a cookie includes the port: an
  // address without it, opened in a new tab, leads into the session.
  const [root] = /^\/ui\/(~[^/]+\/)?/.exec(location.pathname) || [""];
  const stored = localStorage.getItem("session");
  if (!enter && root.includes("~")) {
    localStorage.setItem("session", root);
  } else if (enter && stored === root) {
    localStorage.removeItem("session");
  } else if (enter && stored && location.pathname !== "/ui/enter") {
    location.replace(stored + enter.elements.next.value.slice("/ui/".length) + location.hash);
    return;
  }

  for (const button of all("button[hidden]:not([data-later])")) button.hidden = false;
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-copy]");
    if (button) copy(one(button.dataset.copy).textContent);
    const pause = event.target.closest("[data-pause]");
    if (pause) {
      isPaused = !isPaused;
      pause.textContent = isPaused ? "Resume" : "Pause";
      if (!isPaused) for (const part of all("[data-news]")) htmx.trigger(part, "news");
    }
    if (event.target.closest("#keys-open")) one("#keys").showModal();
  });

  // Live parts: a stream announces news, and htmx fetches the part. An element under the pointer
  // or with the focus is not replaced.
  let isPaused = false;
  const streams = new Map();
  const listen = () => {
    for (const [part, stream] of streams) {
      if (!part.isConnected) { stream.close(); streams.delete(part); }
    }
    for (const part of all("[data-news]")) {
      if (streams.has(part)) continue;
      const stream = new EventSource(part.dataset.news);
      stream.addEventListener("news", () => { if (!isPaused) htmx.trigger(part, "news"); });
      streams.set(part, stream);
    }
  };
  const isBusy = (part) => part.matches("[data-live]") && (part.matches(":hover") || part.contains(document.activeElement));
  document.addEventListener("htmx:beforeRequest", (event) => {
    const timed = !event.detail.requestConfig.triggeringEvent || event.detail.requestConfig.triggeringEvent.type === "every";
    if (timed && isBusy(event.detail.elt)) event.preventDefault();
    if (document.hidden && timed) event.preventDefault();
  });
  // If a thread gets new versions, extend the slider to them.
  const stretch = () => {
    const timeline = one("#timeline[data-versions]");
    if (timeline) for (const each of all(".travel input")) each.max = timeline.dataset.versions;
  };
  document.addEventListener("htmx:afterSettle", () => { listen(); follow(); stretch(); });
  document.addEventListener("htmx:responseError", () => say("The request failed. Reload the page for details."));
  document.addEventListener("htmx:sendError", () => say("The relay does not answer."));

  // Follow the end of a growing list if the page is scrolled to it.
  let wasAtEnd = true;
  const atEnd = () => innerHeight + scrollY >= document.documentElement.scrollHeight - 80;
  document.addEventListener("htmx:beforeSwap", () => { wasAtEnd = atEnd(); });
  const follow = () => { if (wasAtEnd && one("[data-follow]")) scrollTo(0, document.documentElement.scrollHeight); };

  // Keys
  const goes = { o: "home", t: "threads", a: "artifacts", c: "channels", h: "handoffs", p: "runs", b: "project", s: "search", e: "health" };
  let isGoing = false;
  const rows = () => all("[data-row]");
  const move = (by) => {
    const every = rows();
    if (!every.length) return;
    const now = every.findIndex((row) => row.classList.contains("at"));
    const next = every[Math.max(0, Math.min(every.length - 1, now + by))];
    for (const row of every) row.classList.remove("at");
    next.classList.add("at");
    const link = next.querySelector("a, button, summary");
    if (link) link.focus();
    next.scrollIntoView({ block: "nearest" });
  };
  const step = (by) => {
    const slider = one("#version");
    if (!slider) return;
    slider.value = Number(slider.value) + by;
    slider.dispatchEvent(new Event("input", { bubbles: true }));
  };
  const keys = {
    "/": () => { const find = one("#find"); find.focus(); find.select(); },
    j: () => move(1), k: () => move(-1), "[": () => step(-1), "]": () => step(1),
    g: () => { isGoing = true; setTimeout(() => { isGoing = false; }, 1500); },
    y: () => { const held = one("tr.at[data-ref]") || one("[data-row].at") || one("[data-page-ref]"); if (held) copy(held.dataset.ref || held.dataset.pageRef); },
    "?": () => one("#keys").showModal(),
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || one("dialog[open]")) return;
    if (event.target.closest("input:not([type=range]), textarea, select")) {
      if (event.key === "Escape") event.target.blur();
      return;
    }
    if (isGoing && goes[event.key]) {
      isGoing = false;
      const link = one(`[data-go="${goes[event.key]}"]`);
      if (link) link.click();
    } else if (keys[event.key]) {
      isGoing = false;
      event.preventDefault();
      keys[event.key]();
    }
  });

  // The slider and the number of a version show the same value.
  document.addEventListener("input", (event) => {
    if (event.target.matches("#version, #version-number")) {
      const other = one(event.target.id === "version" ? "#version-number" : "#version");
      if (other) other.value = event.target.value;
    }
  });

  listen();
})();
