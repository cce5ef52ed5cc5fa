/* "Explore": swap a picture for its live chart. Scripts are loaded when asked for, from this site, also from disk. */
(function () {
  "use strict";
  var specs = {};
  window.kvFigure = function (id, spec) { specs[id] = spec; };

  function load(address) {
    return new Promise(function (done, fail) {
      var script = document.createElement("script");
      script.src = address;
      script.onload = done;
      script.onerror = fail;
      document.head.appendChild(script);
    });
  }

  function explore(more, figure, button) {
    var id = more.dataset.figure, live = figure.querySelector(".kv-live"), picture = figure.querySelector("img");
    if (live) {
      live.hidden = !live.hidden;
      picture.hidden = !picture.hidden;
      button.textContent = live.hidden ? "Explore" : "Picture";
      return;
    }
    var files = more.querySelector(".kv-bar a").getAttribute("href").replace(/[^/]*$/, "");
    var root = document.documentElement.dataset.content_root || "./";
    var vega = window.vegaEmbed ? Promise.resolve() : load(root + "_static/vendor/vega.js");
    vega.then(function () { return load(files + id + ".js"); }).then(function () {
      live = document.createElement("div");
      live.className = "kv-live";
      picture.after(live);
      return window.vegaEmbed(live, specs[id], { actions: false, renderer: "svg" });
    }).then(function () {
      picture.hidden = true;
      button.textContent = "Picture";
    }).catch(function () { button.textContent = "Explore (not available)"; button.disabled = true; });
  }

  document.addEventListener("DOMContentLoaded", function () {
    document.querySelectorAll(".kv-more").forEach(function (more) {
      var figure = more.closest("figure"), bar = more.querySelector(".kv-bar"), button = document.createElement("button");
      if (!figure || !bar) { return; }
      button.type = "button";
      button.textContent = "Explore";
      button.addEventListener("click", function () { explore(more, figure, button); });
      bar.insertBefore(button, bar.querySelector(".kv-facts"));
    });
    window.addEventListener("beforeprint", function () {
      document.querySelectorAll(".kv-more details").forEach(function (d) { d.open = true; });
    });
  });
}());
