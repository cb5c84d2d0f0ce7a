// Runs before the page is drawn, so that a remembered choice of light or dark does not flash.
try {
    const chosen = localStorage.getItem('holdfast-theme');
    if (chosen === 'light' || chosen === 'dark') document.documentElement.dataset.theme = chosen;
} catch {
    // Without storage the choice lasts as long as the page.
}
