// Search results by section, chapters before the entries of the API, formulas as their letters. Sphinx
// puts this where it has defined its search.
var Scorer = {
  objNameMatch: 11, objPartialMatch: 6, objPrio: { 0: 15, 1: 5, 2: -5 }, objPrioDefault: 0,
  title: 15, partialTitle: 7, term: 5, partialTerm: 2,
  // an object of the API has a description
  score: ([page, , , description, score]) => (description || /^(api|genindex|_modules)\b/.test(page) ? score - 40 : score),
};

(() => {
  const QUOTED = 240;
  const UNWANTED = ".headerlink, script, style, .katex-html, .mf-about, .mf-switch, .mf-origin, .mf-count, button, pre";

  const wordsOf = (element) => element.textContent.replace(/\s+/g, " ").trim();

  function quote(element, keywords) {
    const text = wordsOf(element);
    const places = keywords.map((word) => text.toLowerCase().indexOf(word)).filter((place) => place >= 0);
    const start = Math.max((places.at(-1) ?? 0) - QUOTED / 2, 0);
    const made = document.createElement("p");
    made.className = "context";
    made.textContent = (start ? "…" : "") + text.slice(start, start + QUOTED) + (start + QUOTED < text.length ? "…" : "");
    return made;
  }

  // At most three sections of a page: those with most of the words, and of these the first.
  function sections(article, page, keywords) {
    const found = [...article.querySelectorAll("section[id]")].map((section) => {
      const own = section.cloneNode(true);
      own.querySelectorAll("section").forEach((inner) => inner.remove());
      const heading = own.querySelector("h1, h2, h3, h4");
      const name = heading && wordsOf(heading);
      heading?.remove();
      const text = `${name} ${wordsOf(own)}`.toLowerCase();
      return { id: section.id, name, own, many: keywords.filter((word) => text.includes(word)).length };
    });
    const most = Math.max(0, ...found.map(({ many }) => many));
    const title = found[0]?.name; // is what the page is called above
    const list = document.createElement("ul");
    list.className = "mf-found";
    for (const { id, name, own } of most ? found.filter(({ many }) => many === most).slice(0, 3) : []) {
      const item = document.createElement("li");
      if (name !== title) {
        const link = item.appendChild(document.createElement("a"));
        link.href = `${page}#${id}`;
        link.textContent = name;
      }
      item.append(quote(own, keywords));
      list.append(item);
    }
    return list;
  }

  Search.makeSearchSummary = (html, terms, anchor) => {
    const parsed = new DOMParser().parseFromString(html, "text/html");
    const [, page] = html.match(/DOCUMENTATION_OPTIONS\.pagename = '([^']*)'/) ?? [];
    const article = parsed.querySelector("article");
    if (!article || !page) return document.createElement("p");
    article.querySelectorAll(UNWANTED).forEach((element) => element.remove());
    article.querySelectorAll("td, th, li, p, summary").forEach((element) => element.append(" "));
    const keywords = [...terms].map((word) => word.toLowerCase());
    const target = anchor && parsed.getElementById(decodeURIComponent(anchor.slice(1)));
    return target ? quote(target, keywords) : sections(article, `${page}.html`, keywords);
  };
})();
