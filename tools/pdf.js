/* What tools/pdf.py does inside the browser: join the pages of the site to one document for paper,
   and make everything fit its width. */

window.pdf = (() => {
  // No use on paper. "d-print-none" is for whatever else a page wants to keep out of the PDF.
  const DROPPED = 'script, style, button, .mf-switch, a.headerlink, .viewcode-link, .toctree-wrapper,'
    + ' .mf-about, .mf-origin, .d-print-none';
  const HEADINGS = 'h1, h2, h3, h4, h5';

  const make = (tag, attributes = {}, content = '') => {
    const element = document.createElement(tag);
    Object.entries(attributes).forEach(([name, value]) => element.setAttribute(name, value));
    element.innerHTML = content;
    return element;
  };

  // A place for the number of the page that an id is on, as wide as any number.
  const number = anchor => `<span class="pdf-page" data-page="${anchor}">000</span>`;

  async function read({name, part, level, below}) {
    const answer = await fetch(`/${name}.html`);
    const page = new DOMParser().parseFromString(await answer.text(), 'text/html');
    const article = document.importNode(page.querySelector('article'), true);
    article.querySelectorAll(DROPPED).forEach(e => e.remove());
    return {name, part, level, below, article};
  }

  // An id keeps its name if it is the first of that name, else its page is put before it.
  function nameAnchors(pages) {
    const taken = new Set(), anchors = new Map();
    const take = (name, prefix = '') => {
      const base = taken.has(name) ? prefix + name : name;
      let found = base;
      for (let i = 2; taken.has(found); i++) found = `${base}-${i}`;
      taken.add(found);
      return found;
    };
    for (const {name, article} of pages) {
      const page = name.replaceAll('/', '-');
      article.id = take(`page-${page}`);
      anchors.set(`${name}#`, article.id);
      // An anchor before a heading or a box would part it from what is above: the section or the
      // box takes its place.
      const moved = [];
      for (const outer of article.querySelectorAll('section > span[id]')) {
        const next = outer.nextElementSibling;
        if (outer.textContent || !next) continue;
        const box = next.matches(HEADINGS) ? outer.parentElement : next;
        box.id ||= outer.id;
        for (const e of [outer, ...outer.querySelectorAll('[id]')]) moved.push([e.id, box]);
        outer.remove();
      }
      for (const e of article.querySelectorAll('[id]')) {
        const key = `${name}#${e.id}`;
        e.id = take(e.id, `${page}--`);
        if (!anchors.has(key)) anchors.set(key, e.id);
      }
      moved.forEach(([id, box]) => anchors.set(`${name}#${id}`, box.id));
    }
    return anchors;
  }

  // Addresses relative to the site; links between pages become links in the document.
  function link({name, article}, anchors) {
    const base = new URL(`/${name}.html`, location);
    for (const image of article.querySelectorAll('img[src]'))
      image.src = new URL(image.getAttribute('src'), base);
    for (const a of article.querySelectorAll('a[href]')) {
      const url = new URL(a.getAttribute('href'), base);
      if (url.origin !== location.origin) continue;
      const path = decodeURIComponent(url.pathname.slice(1));
      const page = path.replace(/\.html$/, '');
      const anchor = anchors.get(`${page}#${decodeURIComponent(url.hash.slice(1))}`);
      if (anchor) {
        a.setAttribute('href', `#${anchor}`);
        continue;
      }
      // a file of the site, or a page that is not printed
      const file = path.split('/').pop();
      if (page === path && !a.querySelector('img') && !a.textContent.includes(file))
        a.append(` (${path} in the web version)`);
      a.replaceWith(...a.childNodes);
    }
  }

  // On paper a page is read: of a check its line, of folded code nothing but where it is.
  function readOnly({name, article}) {
    for (const fold of article.querySelectorAll('details.mf-check')) {
      const line = make('p', {class: 'mf-check-line'});
      line.append(...fold.querySelector('summary').childNodes);
      fold.replaceWith(line, ...fold.querySelectorAll(':scope > .mf-mistakes'));
    }
    const code = article.querySelectorAll('details.mf-code');
    if (code.length) {
      const where = make('p', {class: 'mf-where'});
      where.textContent = 'The code of this chapter and the tables of its checks are in the notebook'
        + ` book/${name}.ipynb and in the web version.`;
      article.querySelector('h1').after(where);
    }
    code.forEach(fold => fold.remove());
    article.querySelectorAll('div.cell').forEach(cell => cell.childElementCount || cell.id || cell.remove());
  }

  // What is folded on the screen is open on paper: long tables, solutions.
  function open({article}) {
    for (const details of article.querySelectorAll('details')) {
      details.querySelector(':scope > summary')?.remove();
      const box = make('div', {class: details.className});
      box.append(...details.childNodes);
      if (details.id) box.id = details.id;
      details.replaceWith(box);
    }
    article.querySelectorAll('.dropdown').forEach(e => e.classList.remove('dropdown'));
  }

  // Names, brackets and operators in code get the colour of text: each coloured word is an element
  // of the tagged PDF, which is half as large without these.
  function lighten({article}) {
    for (const code of article.querySelectorAll('.highlight pre')) {
      code.querySelectorAll('span.n, span.p, span.o, span.w, span:empty')
        .forEach(e => e.replaceWith(...e.childNodes));
      code.normalize();
    }
  }

  // Of an interactive figure: the picture that is shown first, and what the slider would do.
  function still({article}) {
    for (const figure of article.querySelectorAll('figure.mf-frames')) {
      const [shown, ...pictures] = figure.querySelectorAll('img');
      const line = make('p', {class: 'pdf-moves'});
      const here = make('b');
      here.textContent = `${figure.querySelector('input').ariaLabel}: ${shown.dataset.label}.`;
      const [first, last] = [pictures[0], pictures.at(-1)].map(picture => picture.dataset.label);
      line.append(here, ` In the web version this figure moves, from ${first} to ${last}.`);
      figure.querySelector('label').replaceWith(line);
      figure.querySelector('.mf-frames-all').remove();
    }
  }

  // The table of contents; on the way, the headings of pages below a chapter step down.
  function contents(pages) {
    const entries = [];
    let before = '';
    for (const {part, level, article} of pages) {
      if (part !== before) entries.push({level: 0, title: part, anchor: article.id});
      before = part;
      [...article.querySelectorAll(HEADINGS)].forEach((heading, i) => {
        const depth = Number(heading.tagName[1]) + level - 1;
      if (depth > 3) return;
        const title = heading.innerHTML.trim();
        const anchor = i ? heading.closest('section').id : article.id;
        entries.push({level: depth, title, anchor, text: heading.textContent.trim()});
        if (level !== 1) heading.replaceWith(make(`h${depth}`, {class: heading.className}, title));
      });
    }
    return entries;
  }

  async function join(list) {
    const pages = await Promise.all(list.map(read));
    const anchors = nameAnchors(pages);
    for (const page of pages) {
      if (page.below && pages.every(other => other.level === 1))
        page.article.append(make('p', {}, 'The pages listed here are in the web version only.'));
      link(page, anchors);
      still(page);
      readOnly(page);
      open(page);
      lighten(page);
    }
    const entries = contents(pages);
    const nav = document.querySelector('nav.pdf-contents');
    for (const {level, title, anchor} of entries) {
      const entry = make('a', {class: `pdf-entry pdf-level-${level}`, href: `#${anchor}`},
        `<span>${title}</span><i></i>${level ? number(anchor) : ''}`);
      nav.append(entry);
    }
    for (const {article} of pages)
      for (const a of article.querySelectorAll(':is(.mf-index, .mf-figures) a[href^="#"]'))
        a.after(make('span', {}, ` (p. ${number(a.getAttribute('href').slice(1))})`));
    const rules = pages.map(({article}, i) => {
      const title = article.querySelector(HEADINGS).textContent.trim();
      const shown = title === document.title ? 'none' : JSON.stringify(title);
      return `#${CSS.escape(article.id)} { page: article-${i}; }`
        + ` @page article-${i} { @top-right { content: ${shown}; } }`;
    });
    document.head.append(make('style', {}, rules.join('\n')));
    document.querySelector('main').append(...pages.map(page => page.article));
    return entries.map(({level, text, title, anchor}) => ({level, title: text ?? title, anchor}));
  }

  // The site's MathJax with the site's settings, taken from one of its pages.
  async function typeset(name) {
    const answer = await fetch(`/${name}.html`);
    const page = new DOMParser().parseFromString(await answer.text(), 'text/html');
    const settings = [...page.scripts].find(script => script.text.includes('window.MathJax ='));
    const source = [...page.scripts].find(script => script.src.includes('/mathjax/'));
    const first = document.createElement('script');
    first.text = settings.text;
    document.head.append(first);
    const second = document.createElement('script');
    second.src = new URL(source.getAttribute('src'), location);
    const loaded = new Promise((done, failed) => {
      Object.assign(second, {onload: done, onerror: failed});
    });
    document.head.append(second);
    await loaded;
    await MathJax.startup.promise;
    for (const {math, typesetRoot} of MathJax.startup.document.math) {
      typesetRoot.setAttribute('role', 'img');
      typesetRoot.setAttribute('aria-label', math);
    }
    await document.fonts.ready;
    await Promise.all([...document.images].map(image => image.decode()));
  }

  const inner = element => {
    const style = getComputedStyle(element);
    return element.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight);
  };
  const block = element => {
    for (let e = element.parentElement; ; e = e.parentElement) if (e.clientWidth) return e;
  };

  // How much wider than its place an equation or a table is. Reads only: layout is done once.
  function excess() {
    // an equation in a table widens the table
    const all = 'main :is(table, mjx-container:not(table *))';
    return [...document.querySelectorAll(all)].map(e => {
      const body = e.querySelector(':scope > mjx-math') ?? e;
      return [e, body.getBoundingClientRect().width / inner(block(e))];
    }).filter(([, ratio]) => ratio > 1.001);
  }

  // Make wide equations and tables smaller; a table that is still too wide breaks its words.
  function fit() {
    const SMALLEST = 0.62;
    const first = new Map();
    for (let round = 0; round < 4; round++) {
      const size = e => parseFloat(getComputedStyle(e).fontSize);
      for (const [e, ratio, now] of excess().map(([e, ratio]) => [e, ratio, size(e)])) {
        if (!first.has(e)) first.set(e, now);
        const smaller = Math.max(0.995 * now / ratio, SMALLEST * first.get(e));
        e.style.fontSize = `${smaller}px`;
        if (smaller === SMALLEST * first.get(e)) e.classList.add('pdf-loose');
      }
    }
    // Short boxes stay on one page.
    const SHORT = 227, boxes = 'div.proof, div.admonition, div.cell_input, pre';
    const short = [...document.querySelectorAll(`main :is(${boxes})`)]
      .filter(e => e.getBoundingClientRect().height < SHORT);
    const tables = [...document.querySelectorAll('main table')]
      .filter(e => e.getBoundingClientRect().height < 2 * SHORT);
    [...short, ...tables].forEach(e => e.classList.add('pdf-keep'));
    return [...first].map(([e, size]) => [where(e), parseFloat(e.style.fontSize) / size]);
  }

  const where = e => {
    const name = e.tagName.toLowerCase() + (e.className ? `.${e.className}` : '');
    return `${e.closest('article')?.id ?? 'front'}: ${name}: ${e.textContent.trim().slice(0, 50)}`;
  };

  // Whatever ends outside its page, or is cut by the box around it.
  function clipped() {
    const edge = document.body.getBoundingClientRect().right + 1;
    return [...document.querySelectorAll('body *')].filter(e => {
      if (e.getBoundingClientRect().right > edge) return true;
      if (e.closest('mjx-container')) return false;  // its parts overlap on purpose
      return e.clientWidth && e.scrollWidth > e.clientWidth + 1
        && getComputedStyle(e).overflowX !== 'visible';
    }).map(where);
  }

  function fill(pages) {
    for (const place of document.querySelectorAll('[data-page]')) {
      if (!(place.dataset.page in pages)) throw Error(`no page for #${place.dataset.page}`);
      place.textContent = pages[place.dataset.page];
    }
  }

  return {join, typeset, fit, clipped, fill};
})();
