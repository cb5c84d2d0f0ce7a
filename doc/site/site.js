// The menu on small screens, the switch between light and dark, and the search.
'use strict';

const root = document.body.dataset.root;

const menuButton = document.getElementById('menu-button');
menuButton.addEventListener('click', () => {
    const open = document.body.classList.toggle('menu-open');
    menuButton.setAttribute('aria-expanded', String(open));
});
const current = document.querySelector('#menu [aria-current]');
if (current) {
    current.closest('details').open = true;
    // Its place in a long menu.
    const below = current.getBoundingClientRect().bottom - innerHeight;
    if (below > 0) document.getElementById('menu').scrollTop += below + innerHeight / 2;
}

// Where the contents stand above the text, they are closed at first.
const contents = document.querySelector('.contents');
if (contents && matchMedia('(max-width: 76rem)').matches) contents.open = false;

document.getElementById('theme-button').addEventListener('click', () => {
    const page = document.documentElement;
    const dark = page.dataset.theme
        ? page.dataset.theme === 'dark'
        : matchMedia('(prefers-color-scheme: dark)').matches;
    page.dataset.theme = dark ? 'light' : 'dark';
    try {
        localStorage.setItem('holdfast-theme', page.dataset.theme);
    } catch {
        // See theme.js.
    }
});

// ---------------------------------------------------------------------------- search

const input = document.getElementById('search');
const results = document.getElementById('results');
const mostResults = 20;
let index = null;
let loading = null;

function load(script) {
    return new Promise((resolve, reject) => {
        const element = document.createElement('script');
        element.src = root + script;
        element.onload = resolve;
        element.onerror = () => reject(new Error(`${script} cannot be loaded`));
        document.head.append(element);
    });
}

// Names of the program are found by each of their words. A query matches beginnings of words.
const wordsOf = (text) => text.toLowerCase().split(/[^\p{L}\p{N}]+/u).filter(Boolean);

async function prepare() {
    await Promise.all([load('lunr.js'), load('search-data.js')]);
    index = lunr(function () {
        this.pipeline.reset();
        this.searchPipeline.reset();
        this.tokenizer = (field) => wordsOf(field || '').map((word) => new lunr.Token(word, {}));
        this.ref('id');
        this.field('page', { boost: 4 });
        this.field('heading', { boost: 8 });
        this.field('text');
        window.siteEntries.forEach(([, page, heading, text], id) => {
            // A whole page comes before its parts.
            this.add({ id, page: heading ? page : '', heading: heading || page, text },
                { boost: heading ? 1 : 3 });
        });
    });
}

// Entries with all words; if there is none, entries with any.
function find(query) {
    const all = wordsOf(query);
    const telling = all.filter((word) => lunr.stopWordFilter(word));
    const needed = telling.length ? telling : all;
    const search = (presence) => index.query((q) => {
        for (const word of needed) {
            const stem = word.length > 3 ? word.replace(/s$/, '') : word;
            q.term(stem, { wildcard: lunr.Query.wildcard.TRAILING, presence });
        }
        for (const word of all) q.term(word, { boost: 10 });
    });
    const found = search(lunr.Query.presence.REQUIRED);
    return found.length ? found : search(lunr.Query.presence.OPTIONAL);
}

function excerpt(text, words) {
    const at = words.map((w) => text.toLowerCase().indexOf(w)).filter((i) => i >= 0);
    const begin = Math.max(0, Math.min(...(at.length ? at : [0])) - 40);
    return (begin ? '\u2026' : '') + text.slice(begin, begin + 130) +
        (text.length > begin + 130 ? '\u2026' : '');
}

function show(found, words) {
    results.replaceChildren(...found.slice(0, mostResults).map(({ ref }) => {
        const [address, page, heading, text] = window.siteEntries[ref];
        const link = document.createElement('a');
        link.href = root + address;
        const name = document.createElement('b');
        name.textContent = heading || page;
        link.append(name);
        if (heading) {
            const title = document.createElement('i');
            title.textContent = page;
            link.append(' ', title);
        }
        const line = document.createElement('span');
        line.textContent = excerpt(text, words);
        link.append(line);
        const item = document.createElement('li');
        item.append(link);
        return item;
    }));
    if (found.length === 0) {
        const item = document.createElement('li');
        item.textContent = 'Nothing found';
        results.append(item);
    }
    results.hidden = false;
}

async function search() {
    const query = input.value;
    if (wordsOf(query).length === 0) {
        results.hidden = true;
        return;
    }
    try {
        loading ??= prepare();
        await loading;
    } catch (error) {
        results.textContent = error.message;
        results.hidden = false;
        return;
    }
    if (input.value === query) show(find(query), wordsOf(query));
}

input.addEventListener('input', search);
input.addEventListener('focus', () => {
    loading ??= prepare();
    loading.catch(() => {});
    if (input.value) search();
});

document.addEventListener('keydown', (event) => {
    const links = [...results.querySelectorAll('a')];
    const at = links.indexOf(document.activeElement);
    const searching = document.activeElement === input || at >= 0;
    if (event.key === '/' && !searching && !event.ctrlKey && !event.metaKey) {
        input.focus();
    } else if (event.key === 'Escape') {
        results.hidden = true;
        document.body.classList.remove('menu-open');
        menuButton.setAttribute('aria-expanded', 'false');
        return;
    } else if (searching && event.key === 'ArrowDown') {
        links[Math.min(at + 1, links.length - 1)]?.focus();
    } else if (searching && event.key === 'ArrowUp') {
        (at > 0 ? links[at - 1] : input).focus();
    } else if (document.activeElement === input && event.key === 'Enter') {
        links[0]?.click();
    } else {
        return;
    }
    event.preventDefault();
});

document.addEventListener('click', (event) => {
    if (!event.target.closest('.search')) results.hidden = true;
});
results.addEventListener('click', () => { results.hidden = true; });
