/* What tools/note.py does inside the browser: the page of the note becomes one document for paper,
   with the boxes, proofs and credits that it names taken from the pages where they stand. */

window.note = (() => {
  const pages = new Map();

  async function read(name) {
    if (!pages.has(name)) {
      const answer = await fetch(`/${name}`);
      if (!answer.ok) throw Error(`no page ${name}: run make book`);
      pages.set(name, new DOMParser().parseFromString(await answer.text(), 'text/html'));
    }
    return pages.get(name);
  }

  // A box, its proofs and its credit: the credit stands in the box or after it, the proofs after it
  // with words between them, before the next box, cell or heading.
  async function taken(link) {
    const [name, anchor] = link.getAttribute('href').split('#');
    const place = (await read(name)).getElementById(anchor);
    if (!place) throw Error(`${name} has no ${anchor}`);
    const inner = place.matches('.proof') ? place : place.querySelector('.proof');
    const box = inner?.parentElement.closest('.admonition') ?? inner ?? place;
    const statement = document.importNode(inner ?? box, true);
    const credit = e => e.matches('p') && /^Credit\./.test(e.textContent.trim());
    const proofs = [], credits = [...box.querySelectorAll('p')].filter(credit);
    for (let next = box.nextElementSibling; next; next = next.nextElementSibling) {
      if (next.matches('section, .cell, .proof, .admonition:not(.dropdown)')
        && !/^\s*Proof/.test(next.textContent)) break;
      if (next.matches('.admonition, details') && /^\s*Proof/.test(next.textContent)) proofs.push(next);
      else if (credit(next)) credits.push(next);
    }
    if (!proofs.length) throw Error(`${anchor} has no proof after it`);
    if (!credits.length) throw Error(`${anchor} has no credit`);
    [...statement.querySelectorAll('p')].filter(credit).forEach(e => e.remove());
    statement.className = 'admonition note-result';
    const after = [...proofs, ...credits].map(e => document.importNode(e, true));
    after.slice(0, proofs.length).forEach(e => { e.className = 'admonition note-proof'; });
    return [statement, ...after];
  }

  // "Beyond the paper" is true of all; a box of a theorem without a number has its name after a colon.
  function titled(statement) {
    const title = statement.querySelector('.admonition-title');
    const words = title.textContent.replace(/\s+/g, ' ').trim()
      .replace(/^Beyond the paper: (.)/, (_, first) => first.toUpperCase())
      .replace(/ \(beyond the paper\)/, '')
      .replace(/^(Theorem|Proposition) (?![A-Z]\.\d)/, '$1: ');
    title.textContent = words;
    return words;
  }

  // The works that are cited, as the bibliography lists them.
  async function works(article) {
    const list = (await read('bibliography.html')).querySelectorAll('.citation');
    const cited = new Set([...article.querySelectorAll('a[href*="bibliography.html#"]')]
      .map(a => a.getAttribute('href').split('#')[1]));
    return [...list].filter(entry => cited.has(entry.id))
      .map(entry => entry.querySelector('p').innerHTML);
  }

  async function join(name) {
    const article = document.importNode((await read(name)).querySelector('article'), true);
    const places = [...article.querySelectorAll('.mf-take')];
    const titles = [];
    for (const place of places) {
      const parts = await taken(place.querySelector('a'));
      titles.push(titled(parts[0]));
      place.replaceWith(...parts);
    }
    article.querySelectorAll('script, style, button, a.headerlink, .viewcode-link, .d-print-none,'
      + ' .mf-about, .mf-origin').forEach(e => e.remove());
    const list = await works(article);
    for (const a of article.querySelectorAll('a[href]:not([href^="http"])'))
      a.replaceWith(...a.childNodes);
    for (const fold of article.querySelectorAll('details')) {
      fold.querySelector(':scope > summary')?.remove();
      fold.replaceWith(...fold.childNodes);
    }
    article.querySelectorAll('[id]').forEach(e => e.removeAttribute('id'));
    const end = document.createElement('section');
    end.innerHTML = '<h2>References</h2><ul class="note-works">'
      + list.map(entry => `<li>${entry}</li>`).join('') + '</ul>';
    article.append(end);
    document.querySelector('main').append(article);
    return titles;
  }

  return {join};
})();
