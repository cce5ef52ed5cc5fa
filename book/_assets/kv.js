/* "Explore": swap a picture for its live chart. Its scripts are loaded when asked for, from beside the page, so it works from disk, too. */
(function () {
  "use strict";
  const specs = {};
  window.kvFigure = (id, spec) => { specs[id] = spec; };

  function load(address) {
    return new Promise((done, fail) => {
      const script = document.createElement("script");
      script.src = address;
      script.onload = done;
      script.onerror = fail;
      document.head.append(script);
    });
  }

  async function draw(id, picture) {
    const root = document.documentElement.dataset.content_root || "./";
    if (!window.vegaEmbed) await load(root + "_static/vendor/vega.js");
    if (!specs[id]) await load(root + "live/" + id + ".js");
    const live = document.createElement("div");
    live.className = "kv-live";
    live.setAttribute("role", "img");
    live.setAttribute("aria-label", picture.alt);
    picture.after(live);
    await window.vegaEmbed(live, specs[id], { actions: false, renderer: "svg" });
    return live;
  }

  function addButton(more) {
    const figure = more.closest("figure"), bar = more.querySelector(".kv-bar"), picture = figure && figure.querySelector("img");
    if (!picture || !bar) return;
    const button = document.createElement("button");
    let live = null;
    button.type = "button";
    const say = (word) => button.firstChild.replaceWith(word);
    button.append("Explore", bar.querySelector(".visually-hidden").cloneNode(true));
    button.onclick = async () => {
      button.disabled = true;
      try {
        if (live) live.hidden = !live.hidden;
        else live = await draw(more.dataset.figure, picture);
        picture.hidden = !live.hidden;
        say(live.hidden ? "Explore" : "Picture");
        button.disabled = false;
      } catch (error) {
        say("Explore: the live chart did not load");
      }
    };
    bar.append(" · ", button);
  }

  document.addEventListener("DOMContentLoaded", () => document.querySelectorAll(".kv-more").forEach(addButton));
  window.addEventListener("beforeprint", () => document.querySelectorAll(".kv-more details").forEach((data) => { data.open = true; }));
}());
