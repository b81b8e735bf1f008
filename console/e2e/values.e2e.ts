import type { Page } from 'playwright-core';
import { afterAll, beforeAll, describe } from 'vitest';
import { Firn } from './support/firn';
import { look } from './support/look';
import { expect, test } from './support/test';

const SCRIPT = '<img src=x onerror="window.hacked=1">';
const LONG = `${'padding '.repeat(60)}needle at the end`;

const totalIs = (page: Page, count: number) => page.locator(`[data-total="${count}"]`).waitFor();
const marks = (page: Page) => page.getByRole('row').nth(1).locator('mark').allInnerTexts();
const url = (query: string, rest = '') => `/discover?i=odd&t=now-1h,now&q=${encodeURIComponent(query)}${rest}`;

describe('marks of the query, and actions on a value', () => {
  let firn: Firn;

  beforeAll(async () => {
    firn = await Firn.start();
    await firn.ask('PUT', '/odd', {
      settings: { 'index.highlight.max_analyzed_offset': 50 },
      mappings: { properties: { '@timestamp': { type: 'date' }, kind: { type: 'keyword' }, message: { type: 'text' }, tags: { type: 'keyword' }, host: { type: 'text', fields: { keyword: { type: 'keyword' } } } } },
    });
    const at = (seconds: number) => new Date(Date.now() - seconds * 1000).toISOString();
    await firn.index('odd', [
      { '@timestamp': at(1), kind: 'plain', host: 'Web-1', message: 'Failed password for root from 10.0.0.1', tags: ['ssh', 'auth'] },
      { '@timestamp': at(2), kind: 'markup', host: 'web-2', message: `failed ${SCRIPT}` },
      { '@timestamp': at(3), kind: 'long', host: 'web-3', message: LONG },
      { '@timestamp': at(4), kind: 'own', host: 'web-4', message: 'failed @firn-mark@by itself@/firn-mark@' },
      { '@timestamp': at(5), kind: 'huge', host: 'web-5', message: `huge ${'x'.repeat(1 << 20)}` },
    ]);
  });

  afterAll(() => firn.stop());

  test('marks matches in summaries, cells and open events', async ({ windows }) => {
    const page = await windows.open(firn, url('message: failed and kind: plain'));
    await totalIs(page, 1);
    await expect.poll(() => marks(page)).toEqual(['plain', 'Failed']);
    // Matching fields come first.
    expect((await page.getByRole('row').nth(1).locator('dl').innerText()).startsWith('kind plain message Failed password')).toBe(true);
    await page.getByRole('row').nth(1).getByRole('button', { name: 'Open this event' }).click();
    await expect.poll(() => page.locator('td mark').allInnerTexts()).toEqual(['plain', 'Failed']);
    await look(page, 'discover-marks');

    for (const [query, expected] of [
      ['ssh', ['ssh']],
      ['host.keyword: Web-1', ['Web-1']],
      ['host: "web 1"', ['Web', '1']],
      ['message: pass*', ['password']],
      ['message: "password for root"', ['password', 'for', 'root']],
      ['kind: plain and not message: nothing', ['plain']],
      ['@timestamp < now and kind: plain', ['plain']],
    ] as const) {
      const one = await windows.open(firn, url(query));
      await totalIs(one, 1);
      await expect.poll(() => marks(one), { message: query }).toEqual(expected);
      await one.close();
    }
    const cells = await windows.open(firn, url('tags: auth', '&c=tags,message'));
    await totalIs(cells, 1);
    await expect.poll(() => marks(cells)).toEqual(['auth']);
    await cells.getByRole('row').nth(1).getByText('ssh, auth').waitFor();
  });

  test('marks nothing without a query', async ({ windows }) => {
    const page = await windows.open(firn, '/discover?i=odd&t=now-1h,now');
    await totalIs(page, 5);
    await page.getByRole('row').nth(5).waitFor();
    expect(await page.locator('mark').count()).toBe(0);
  });

  test('shows a long value around the match, and never renders markup of an event', async ({ windows }) => {
    const page = await windows.open(firn, url('message: needle'));
    await totalIs(page, 1);
    await expect.poll(() => marks(page)).toEqual(['needle']);
    await page.getByRole('row').nth(1).getByText('…').first().waitFor();

    const hostile = await windows.open(firn, url('message: (failed or img or huge or itself)'));
    await totalIs(hostile, 4);
    await hostile.getByRole('row').nth(2).getByText(SCRIPT).waitFor();
    // Highlight tags in an event itself stay text, and such a value gets no marks.
    await hostile.getByText('failed @firn-mark@by itself@/firn-mark@').waitFor();
    expect(await hostile.locator('mark').allInnerTexts()).toEqual(['Failed', 'failed', 'img', 'huge']);
    expect(await hostile.locator('dl img').count()).toBe(0);
    expect(await hostile.evaluate(() => (window as { hacked?: unknown }).hacked)).toBeUndefined();
    await look(hostile, 'discover-marks-hostile');
  });

  test('offers filters and copy for a value of an open event, by click or keyboard', async ({ windows }) => {
    const page = await windows.open(firn, '/discover?i=odd&t=now-1h,now');
    await totalIs(page, 5);
    await page.getByRole('row').nth(1).getByRole('button', { name: 'Open this event' }).click();
    const value = page.getByRole('cell').getByRole('button', { name: 'plain', exact: true });
    await value.click();
    await page.getByRole('menuitem', { name: 'Copy' }).waitFor();
    await look(page, 'discover-value');
    await page.getByRole('menuitem', { name: 'Copy' }).click();
    await expect.poll(() => page.evaluate(() => navigator.clipboard.readText())).toBe('plain');
    await expect.poll(() => value.evaluate((element) => element === document.activeElement)).toBe(true);

    // Selecting part of the text opens no menu. The previous menu has to fade out first, because it covers the text.
    await page.getByRole('menu').waitFor({ state: 'hidden' });
    const box = await page.getByRole('cell').getByRole('button', { name: /^Failed password/ }).boundingBox();
    if (!box) throw new Error('there is no message');
    await page.mouse.move(box.x + 3, box.y + 10);
    await page.mouse.down();
    await page.mouse.move(box.x + 120, box.y + 10, { steps: 5 });
    await page.mouse.up();
    expect(await page.evaluate(() => window.getSelection()?.toString() ?? '')).toMatch(/^Failed/);
    expect(await page.getByRole('menu').count()).toBe(0);

    await value.focus();
    await page.keyboard.press('Enter');
    const only = page.getByRole('menuitem', { name: 'Include' });
    await expect.poll(() => only.evaluate((element) => element === document.activeElement)).toBe(true);
    await page.keyboard.press('Enter');
    await totalIs(page, 1);
    await page.getByRole('button', { name: 'Filter: kind is plain', exact: true }).waitFor();
    await page.goBack();
    await totalIs(page, 5);
    await value.press(' ');
    await page.getByRole('menuitem', { name: 'Exclude' }).click();
    await totalIs(page, 4);
  });

  test('offers the same for the top values of a field', async ({ windows }) => {
    const page = await windows.open(firn, '/discover?i=odd&t=now-1h,now');
    await totalIs(page, 5);
    const kind = page.getByRole('list', { name: 'Fields' }).getByRole('button', { name: /^\S+ kind / });
    await kind.click();
    const values = page.getByRole('list', { name: 'Top values of kind' });
    await values.getByRole('button', { name: 'Copy markup' }).click();
    await expect.poll(() => page.evaluate(() => navigator.clipboard.readText())).toBe('markup');
    await look(page, 'discover-top-values');
    await values.getByText('markup').click();
    await totalIs(page, 1);
    await page.getByRole('button', { name: 'Filter: kind is markup', exact: true }).waitFor();
  });
});
