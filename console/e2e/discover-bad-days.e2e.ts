import type { Page } from 'playwright-core';
import { afterAll, beforeAll, describe } from 'vitest';
import { Firn } from './support/firn';
import { look } from './support/look';
import { expect, test } from './support/test';

const totalIs = (page: Page, count: number) => page.locator(`[data-total="${count}"]`).waitFor();

async function query(page: Page, text: string): Promise<void> {
  await page.locator('.cm-content').click();
  await page.keyboard.press('ControlOrMeta+a');
  await page.keyboard.insertText(text);
  await page.keyboard.press('Enter');
}

const SCRIPT = '<img src=x onerror="window.hacked=1"><script>window.hacked=1</script>';

/** Malicious events. */
function hostile(): object[] {
  const at = (seconds: number) => new Date(Date.now() - seconds * 1000).toISOString();
  return [
    { '@timestamp': at(1), kind: 'markup', [SCRIPT]: SCRIPT, message: SCRIPT, nested: { '<b>': [SCRIPT, { deep: SCRIPT }] } },
    { '@timestamp': at(2), kind: 'right-to-left', message: '\u202Eهذا نص من اليمين إلى اليسار\u202C 👩‍👩‍👧‍👦 \u0000\u0007' },
    { '@timestamp': at(3), kind: 'megabyte', message: 'x'.repeat(1 << 20) },
    { '@timestamp': at(4), kind: 'wide', ...Object.fromEntries(Array.from({ length: 300 }, (_, at) => [`field_${at}`, `value ${at}`])) },
    { '@timestamp': at(5), kind: 'marks', message: '@firn-mark@not a mark@/firn-mark@ {{constructor}} javascript:alert(1)' },
  ];
}

describe('Discover on bad days', () => {
  let firn: Firn;

  beforeAll(async () => {
    firn = await Firn.start();
    await firn.ask('PUT', '/hostile', { settings: { 'index.mapping.total_fields.limit': 2000 }, mappings: { properties: { '@timestamp': { type: 'date' }, message: { type: 'text' } } } });
    await firn.index('hostile', hostile());
    await firn.generate('events-demo', { events: 500, days: 6 });
  });

  afterAll(() => firn.stop());

  test('marks previous results while a request is running', async ({ windows }) => {
    const page = await windows.open(firn, '/discover?i=events-demo&t=now-7d,now', { routes: true });
    await totalIs(page, 500);
    const fields = page.getByRole('list', { name: 'Fields' });
    await fields.getByRole('button', { name: /values in/ }).first().waitFor();
    const legend = page.getByRole('list', { name: 'Legend' });
    await legend.waitFor();
    const old = page.locator('[data-stale]');
    await expect.poll(() => old.count()).toBe(0);
    let goOn = () => {};
    const held = new Promise<void>((resolve) => (goOn = resolve));
    await page.route('**/_firn/discover', async (route) => {
      await held;
      await route.continue();
    });
    await query(page, 'severity: *');
    await page.locator('[data-stale][role="rowgroup"]').waitFor();
    for (const list of [legend, fields]) await expect.poll(() => list.getAttribute('aria-busy')).toBe('true');
    expect(await legend.getAttribute('data-stale')).not.toBeNull();
    expect(await fields.locator('[data-stale]').count()).toBeGreaterThan(0);
    await look(page, 'discover-awaited');
    goOn();
    await totalIs(page, 500);
    await expect.poll(() => old.count()).toBe(0);
  });

  test('marks a syntax error, and keeps the page', async ({ windows }) => {
    const page = await windows.open(firn, '/discover?i=events-demo&t=now-7d,now');
    await totalIs(page, 500);
    await page.locator('.u-over').waitFor();
    await query(page, 'severity: (critical or');
    const editor = page.locator('.cm-content');
    await page.locator('.cm-content[aria-invalid="true"]').waitFor();
    await page.locator('.cm-lintRange-error').waitFor();
    const messageId = (await editor.getAttribute('aria-describedby')) ?? '';
    expect(await page.locator(`[id="${messageId}"]`).innerText()).not.toBe('');
    expect(await page.getByRole('row').count()).toBeGreaterThan(5);
    await page.getByRole('slider').waitFor();
    await page.getByText('Previous results').waitFor();
    await look(page, 'discover-syntax-error');
    await query(page, 'severity: *');
    await totalIs(page, 500);
    expect(await editor.getAttribute('aria-invalid')).toBeNull();
  });

  test('shows hostile values as text', async ({ windows }) => {
    const page = await windows.open(firn, '/discover?i=hostile');
    await totalIs(page, 5);
    await look(page, 'discover-hostile');
    for (let row = 0; row < 5; row += 1) await page.getByRole('button', { name: 'Open this event' }).first().click();
    await page.getByText(/^Show all 1,048,576/).waitFor();
    for (const tab of await page.getByRole('tab', { name: 'JSON' }).all()) await tab.click();
    await page.getByRole('region', { name: 'Event as JSON' }).last().waitFor();

    const columns = await windows.open(firn, `/discover?i=hostile&c=message,${encodeURIComponent(encodeURIComponent(SCRIPT))}&q=message:mark`);
    await totalIs(columns, 1);
    await columns.getByRole('row').nth(1).getByText('not a').waitFor();
    await columns.getByRole('columnheader', { name: SCRIPT }).waitFor();
    for (const one of [page, columns]) expect(await one.evaluate(() => (window as { hacked?: unknown }).hacked)).toBeUndefined();
  });

  test('reports missing fields, indices and invalid URL parameters', async ({ windows }) => {
    const page = await windows.open(firn, '/discover?i=events-demo&t=now-7d,now&c=nowhere,host&s=nowhere&f=%5B7%5D');
    await totalIs(page, 500);
    await page.getByText('Some URL parameters are invalid').waitFor();
    await page.getByRole('columnheader', { name: /nowhere/ }).waitFor();
    const missing = await windows.open(firn, '/discover?i=not-there');
    await missing.getByRole('alert').getByText(/no such index \[not-there\]/).first().waitFor();
    await look(missing, 'discover-no-index');
  });

  test('leads from a time range without events to one with events', async ({ windows }) => {
    const page = await windows.open(firn, '/discover?i=events-demo&t=2001-01-01T00:00:00.000Z,2001-01-02T00:00:00.000Z');
    await page.getByText('No events match in this time range').waitFor();
    await page.getByText(/500 matches outside this range/).waitFor();
    await look(page, 'discover-no-hits');
    await page.getByRole('button', { name: 'Show the day before it' }).click();
    await page.getByRole('row').nth(1).waitFor();
    await query(page, 'severity: "such a severity there is not"');
    await page.getByText('No matches at any time').waitFor();
    await page.getByRole('button', { name: 'Clear query and filters' }).click();
    await page.locator('[data-total]:not([data-total="0"])').waitFor();
  });

  test('lets one stage fail while others succeed', async ({ windows }) => {
    const page = await windows.open(firn, '/discover?i=events-demo&t=now-7d,now&g=1ms');
    await totalIs(page, 500);
    await page.getByText('Histogram: request failed').waitFor();
    await page.getByText(/more than \[2048\] buckets/).waitFor();
    await page.getByRole('list', { name: 'Fields' }).getByRole('button', { name: /values in/ }).first().waitFor();
    await look(page, 'discover-stage-failed');
    await page.getByLabel('Interval').selectOption('');
    await page.locator('.u-over').waitFor();
  });

  test('marks invalid JSON', async ({ windows }) => {
    const page = await windows.open(firn, '/discover?i=events-demo&t=now-7d,now&l=dsl');
    await totalIs(page, 500);
    await query(page, '{"term": {"severity": critical}}');
    await page.locator('.cm-lintRange-error').waitFor();
    await query(page, '{"match_all": {}}');
    await page.locator('.cm-content:not([aria-invalid])').waitFor();
    await totalIs(page, 500);
  });

  test('shows times in zones with half-hour offsets and on days of a clock change', async ({ windows }) => {
    await firn.ask('PUT', '/clocks', { mappings: { properties: { '@timestamp': { type: 'date' } } } });
    await firn.index('clocks', [{ '@timestamp': '2026-03-29T00:59:59.999Z' }, { '@timestamp': '2026-03-29T01:00:00.000Z' }]);
    const range = 't=2026-03-28T23:00:00.000Z,2026-03-29T21:59:59.999Z';
    for (const [timezoneId, before, after] of [
      ['Europe/Berlin', '01:59:59.999', '03:00:00.000'],
      ['Asia/Kolkata', '06:29:59.999', '06:30:00.000'],
      ['Asia/Kathmandu', '06:44:59.999', '06:45:00.000'],
    ] as const) {
      const page = await windows.open(firn, `/discover?i=clocks&${range}`, { context: { timezoneId } });
      await totalIs(page, 2);
      await page.getByRole('row').nth(1).getByText(after).waitFor();
      await page.getByRole('row').nth(2).getByText(before).waitFor();
    }
  });

  test('keeps working if one of its files fails to load, and names the missing part', async ({ windows }) => {
    const page = await windows.open(firn, '/tasks', { routes: true, allow: /preload|dynamically imported/ });
    await page.getByRole('heading', { name: 'Tasks' }).waitFor();
    const chart = /\/assets\/(HistogramChart|QueryEditor)[^/]*\.js/;
    await page.route(chart, (route) => route.abort());
    await page.goto(`${firn.url}/app/discover?i=events-demo&t=now-7d,now`);
    await totalIs(page, 500);
    const alert = page.getByRole('alert').filter({ hasText: 'Failed to load the chart' });
    await alert.waitFor();
    expect(await page.getByRole('row').count()).toBeGreaterThan(5);
    // A query runs without the editor as well.
    await page.getByLabel('Query in KQL').fill('severity: nowhere');
    await page.keyboard.press('Enter');
    await totalIs(page, 0);
    await page.unroute(chart);
    await alert.getByRole('button', { name: 'Try again' }).click();
    await page.locator('.cm-content').getByText('severity: nowhere').waitFor();
    await query(page, 'severity: *');
    await page.locator('.u-over').waitFor();
  });

  test('shows how to send events if there are none', async ({ windows }) => {
    const empty = await Firn.start();
    try {
      const page = await windows.open(empty, '/discover');
      await page.getByRole('heading', { name: 'Send events' }).waitFor();
      await page.getByLabel('curl block', { exact: true }).waitFor();
      await look(page, 'discover-no-source');
    } finally {
      await empty.stop();
    }
  });
});
