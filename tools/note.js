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

  // A box with what follows it up to the next box or heading: its proof, and its credit.
  async function taken(link) {
    const [name, anchor] = link.getAttribute('href').split('#');
    const place = (await read(name)).getElementById(anchor);
    if (!place) throw Error(`${name} has no ${anchor}`);
    const box = place.matches('.proof') ? place : place.querySelector('.proof') ?? place;
    const found = [box];
    for (let next = box.nextElementSibling; next; next = next.nextElementSibling) {
      const proof = next.matches('.dropdown, details') && /^\s*Proof/.test(next.textContent);
      if (!proof && !/^Credit\./.test(next.textContent.trim())) break;
      found.push(next);
    }
    if (!found.some(e => /^\s*Proof/.test(e.textContent)))
      throw Error(`${anchor} has no proof after it`);
    return found.map(e => document.importNode(e, true));
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
      titles.push(parts[0].querySelector('.admonition-title').textContent.trim());
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
    article.querySelectorAll('.dropdown').forEach(e => e.classList.remove('dropdown'));
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
