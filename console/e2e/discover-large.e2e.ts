import { afterAll, beforeAll, describe } from 'vitest';
import { Firn } from './support/firn';
import { expect, test } from './support/test';

const EVENTS = 100_500;
const PER_REQUEST = 10_000;

describe('Discover over many events', () => {
  let firn: Firn;

  beforeAll(async () => {
    firn = await Firn.start();
    await firn.ask('PUT', '/many', { settings: { number_of_shards: 2 }, mappings: { properties: { '@timestamp': { type: 'date' }, number: { type: 'long' } } } });
    const began = Date.now() - 3_600_000;
    for (let from = 0; from < EVENTS; from += PER_REQUEST) {
      const count = Math.min(PER_REQUEST, EVENTS - from);
      // Three events share each instant: pages end among them.
      const events = Array.from({ length: count }, (_, at) => ({ '@timestamp': began + Math.floor((from + at) / 3) * 3, number: from + at }));
      await firn.index('many', events);
    }
  }, 240_000);

  afterAll(() => firn.stop());

  test('scrolls through 100,000 events, each once', { timeout: 300_000 }, async ({ windows }) => {
    const page = await windows.open(firn, '/discover?i=many&c=number');
    await page.locator(`[data-total="${EVENTS}"]`).waitFor();
    const grid = page.getByRole('treegrid', { name: 'Events' });
    const ends = page.getByText('The table shows at most 100,000 events.');
    const seen = new Set<string>();
    while (!(await ends.isVisible())) {
      await grid.evaluate((element) => element.parentElement?.scrollTo(0, element.parentElement.scrollHeight));
      await page.waitForTimeout(20);
      for (const text of await grid.getByRole('row').locator('[role="gridcell"]:last-child').allInnerTexts()) seen.add(text);
    }
    // Only the rows on screen are rendered.
    expect(await grid.getByRole('row').count()).toBeLessThan(80);
    await page.keyboard.press('e');
    await page.keyboard.press('End');
    const last = Number((await page.locator('[id="event-99999"]').innerText()).split('\n').at(-1)?.replaceAll(/\D/g, ''));
    // The newest has the highest number; events of one instant may come in any order.
    expect(Math.abs(last - (EVENTS - 100_000))).toBeLessThanOrEqual(2);
    expect(seen.size).toBeGreaterThan(1000);
  });

  test('cancels an export without saving a file', async ({ windows }) => {
    const page = await windows.open(firn, '/discover?i=many');
    await page.locator(`[data-total="${EVENTS}"]`).waitFor();
    let downloads = 0;
    page.on('download', () => (downloads += 1));
    await page.getByRole('button', { name: 'Export', exact: true }).click();
    const dialog = page.getByRole('dialog', { name: 'Export events' });
    await dialog.getByRole('button', { name: 'Export', exact: true }).click();
    await dialog.getByText(/of 100,500 events/).last().waitFor();
    await dialog.getByRole('button', { name: 'Cancel' }).click();
    await dialog.getByText('Cancelled. No file was saved.').waitFor();
    expect(downloads).toBe(0);
  });

  test('cancels a search', async ({ windows }) => {
    const page = await windows.open(firn, '/discover?i=many', { routes: true });
    await page.locator(`[data-total="${EVENTS}"]`).waitFor();
    // A response that never arrives.
    await page.route('**/_firn/discover', () => undefined);
    await page.keyboard.press('r');
    await page.getByRole('button', { name: 'Cancel' }).click();
    await page.getByText(/^Events: cancelled/).waitFor();
    await page.unroute('**/_firn/discover');
    await page.getByRole('button', { name: 'Refresh' }).first().click();
    await page.locator(`[data-total="${EVENTS}"]`).waitFor();
  });

  test('reports an unreachable server, and keeps the rows', async ({ windows }) => {
    const page = await windows.open(firn, '/discover?i=many');
    await page.locator(`[data-total="${EVENTS}"]`).waitFor();
    // All its files have loaded.
    await page.locator('.u-over').waitFor();
    await firn.kill();
    await page.keyboard.press('r');
    await page.getByText(/firn cannot be reached/).first().waitFor();
    expect(await page.getByRole('row').count()).toBeGreaterThan(5);
    await firn.go();
    await page.getByRole('button', { name: 'Try again' }).first().click();
    await page.locator(`[data-total="${EVENTS}"]`).waitFor();
    expect(await page.getByText(/firn cannot be reached/).count()).toBe(0);
  });
});
