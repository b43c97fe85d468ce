// The switch "read / code" of a page, remembered; and what a link leads to is opened.
(() => {
  const KEY = "mfbook-show";
  // private windows may forbid it: the switch then works for one page
  const remembered = () => { try { return localStorage.getItem(KEY); } catch { return null; } };
  const remember = (value) => { try { localStorage.setItem(KEY, value); } catch { /* as above */ } };

  function reveal() {
    const target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (!target) return;
    if (target.matches("div.cell") && !target.checkVisibility()) target.querySelector("details").open = true;
    for (let around = target.closest("details"); around; around = around.parentElement.closest("details"))
      around.open = true;
    const check = target.matches("div.cell") && target.querySelector(":scope > details.mf-check");
    if (check) check.open = true;
  }

  addEventListener("DOMContentLoaded", () => {
    const choice = document.querySelector(".mf-switch");
    if (choice) {
      const buttons = [...choice.querySelectorAll("button")];
      const show = (code) => {
        buttons.forEach((button, i) => button.setAttribute("aria-pressed", String((i === 1) === code)));
        document.documentElement.classList.toggle("mf-read", !code);
        for (const fold of document.querySelectorAll("details.mf-fold")) fold.open = code && !fold.matches(".mf-check");
      };
      buttons.forEach((button, i) => button.addEventListener("click", () => {
        remember(i === 1 ? "code" : "read");
        show(i === 1);
      }));
      show(remembered() === "code");
    }
    reveal();
  });
  addEventListener("hashchange", reveal);
})();
