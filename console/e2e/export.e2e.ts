import { readFileSync } from 'node:fs';
import type { Download, Page } from 'playwright-core';
import { afterAll, beforeAll, describe } from 'vitest';
import { readCsv } from './support/csv';
import { Firn } from './support/firn';
import { look } from './support/look';
import { slowLine } from './support/network';
import { expect, test } from './support/test';

/** Values that an export must keep unchanged, also those that spreadsheets take for formulas. */
const ODD = [
  '=1+1',
  '=HYPERLINK("http://127.0.0.1/?"&A1,"click")',
  '+49 30 1234',
  '-1-1',
  '@SUM(A1:A9)',
  '"quoted", with a comma',
  'line\nfeed\r\nand\ttab',
  "it's; 'single' \\ backslash",
  '👩‍👩‍👧‍👦 🏳️‍🌈 e\u0301 𝒳',
  'שלום \u202egnp.exe\u202c',
  ' leading and trailing ',
  '',
  'null',
  '<script>alert(1)</script>',
  'separators \u2028 and \u2029',
];

/** Newest first, as in the table. */
const ODD_EVENTS = ODD.map((text, at) => ({
  '@timestamp': new Date(Date.now() - 60_000 - at * 1000).toISOString(),
  text,
  ...(at % 3 === 0 && { list: [text, `${at}`] }),
  ...(at % 2 === 0 && { number: at === 2 ? -0.5 : at }),
  nested: { deep: at % 4 === 0 ? null : `"${at}"` },
}));

const LARGE = 300;
const LARGE_CHARS = 100_000;

const dialog = (page: Page) => page.getByRole('dialog', { name: 'Export events' });

async function openDialog(page: Page, format: 'CSV' | 'NDJSON'): Promise<void> {
  await page.getByRole('button', { name: 'Export', exact: true }).first().click();
  await dialog(page).getByText(format, { exact: true }).click();
}

const start = (page: Page) => dialog(page).getByRole('button', { name: /^Export/ }).click();

async function exported(page: Page, format: 'CSV' | 'NDJSON'): Promise<{ text: string; download: Download }> {
  await openDialog(page, format);
  const saved = page.waitForEvent('download');
  await start(page);
  const download = await saved;
  await dialog(page).getByText(/^Done:/).waitFor();
  const text = readFileSync(await download.path(), 'utf8');
  await dialog(page).getByRole('button', { name: 'Close' }).last().click();
  return { text, download };
}

describe('the content of an exported file', () => {
  let firn: Firn;

  beforeAll(async () => {
    firn = await Firn.start();
    const keyword = { type: 'keyword' };
    await firn.ask('PUT', '/odd', { mappings: { properties: { '@timestamp': { type: 'date' }, text: keyword, list: keyword, number: { type: 'double' }, nested: { properties: { deep: keyword } } } } });
    await firn.index('odd', ODD_EVENTS);
  });

  afterAll(() => firn.stop());

  test('CSV: every value unchanged, in the columns and the order of the page', async ({ windows }) => {
    const page = await windows.open(firn, '/discover?i=odd&c=text,list,number,nested.deep,nowhere');
    await page.locator(`[data-total="${ODD.length}"]`).waitFor();
    const { text, download } = await exported(page, 'CSV');
    expect(download.suggestedFilename()).toMatch(/\.csv$/);
    const [head, ...rows] = readCsv(text);
    expect(head).toEqual(['@timestamp', 'text', 'list', 'number', 'nested.deep', 'nowhere']);
    const expected = ODD_EVENTS.map((event) => [
      event['@timestamp'],
      event.text,
      event.list ? JSON.stringify(event.list) : null,
      event.number === undefined ? null : String(event.number),
      event.nested.deep,
      null,
    ]);
    const unpacked = rows.map((row) => row.map((value, at) => (at === 2 && value ? JSON.stringify(JSON.parse(value)) : value)));
    expect(unpacked).toEqual(expected);

    // In another order, and with a query.
    const narrowed = await windows.open(firn, `/discover?i=odd&c=number&s=number:asc&q=${encodeURIComponent('number >= 4')}`);
    await narrowed.locator('[data-total="6"]').waitFor();
    expect(readCsv((await exported(narrowed, 'CSV')).text).map((row) => row[1])).toEqual(['number', '4', '6', '8', '10', '12', '14']);
  });

  test('CSV without selected columns: all fields in use, the time first', async ({ windows }) => {
    const page = await windows.open(firn, '/discover?i=odd');
    await page.locator(`[data-total="${ODD.length}"]`).waitFor();
    const [head, ...rows] = readCsv((await exported(page, 'CSV')).text);
    expect(head?.[0]).toBe('@timestamp');
    expect(head?.slice(1).sort()).toEqual(['list', 'nested.deep', 'number', 'text']);
    const at = head?.indexOf('text') ?? -1;
    expect(rows.map((row) => row[at])).toEqual(ODD);
  });

  test('NDJSON: each event as it was sent, for any columns', async ({ windows }) => {
    const page = await windows.open(firn, '/discover?i=odd&c=text');
    await page.locator(`[data-total="${ODD.length}"]`).waitFor();
    const { text, download } = await exported(page, 'NDJSON');
    expect(download.suggestedFilename()).toMatch(/\.ndjson$/);
    expect(text.endsWith('\n')).toBe(true);
    const lines = text.slice(0, -1).split('\n');
    expect(lines.map((line) => JSON.parse(line) as object)).toEqual(ODD_EVENTS);
    expect(lines).toEqual(ODD_EVENTS.map((event) => JSON.stringify(event)));
  });
});

describe('a slow export', () => {
  let firn: Firn;
  const fill = async () => {
    await firn.ask('PUT', '/large', { mappings: { properties: { '@timestamp': { type: 'date' }, number: { type: 'long' }, pad: { type: 'keyword', index: false, doc_values: false } } } });
    const at = Date.now();
    for (let first = 0; first < LARGE; first += 50) {
      await firn.index('large', Array.from({ length: 50 }, (_, number) => ({ '@timestamp': at - first - number, number: first + number, pad: String(number % 10).repeat(LARGE_CHARS) })));
    }
  };

  beforeAll(async () => {
    firn = await Firn.start();
    await fill();
  }, 120_000);

  afterAll(() => firn.stop());

  /**
   * Opens a window with all events on a connection so slow that the file takes about ten seconds, and records
   * downloads.
   */
  async function opened(windows: { open: (firn: Firn, path: string, options?: { allow: RegExp }) => Promise<Page> }, allow?: RegExp) {
    const page = await windows.open(firn, '/discover?i=large&c=number,pad&t=now-1d,now', allow && { allow });
    await page.locator(`[data-total="${LARGE}"]`).waitFor();
    await page.getByRole('slider').waitFor();
    const files: Download[] = [];
    page.on('download', (download) => files.push(download));
    await slowLine(page, { latencyMs: 5, bytesPerSecond: 3 << 20 });
    return { page, files };
  }

  /** Percent and events, as shown in the dialog. */
  async function progress(page: Page): Promise<[percent: number, events: number]> {
    const percent = Number(await dialog(page).getByRole('progressbar').getAttribute('aria-valuenow'));
    const told = await dialog(page).getByRole('status').innerText();
    return [percent, Number(/^(?:Done: )?([\d,]+) of 300 events/.exec(told)?.[1]?.replaceAll(',', ''))];
  }

  /** Waits until the export is running, neither at its start nor at its end. */
  async function isUnderWay(page: Page): Promise<number> {
    await expect.poll(async () => (await progress(page))[1], { timeout: 20_000 }).toBeGreaterThan(10);
    const [percent, events] = await progress(page);
    expect(events).toBeLessThan(LARGE);
    expect(Math.abs(percent - (events * 100) / LARGE)).toBeLessThan(20);
    return events;
  }

  /** Number of exports that the server is still running. */
  const running = async () => {
    const { tasks } = await firn.ask<{ tasks: { action: string }[] }>('GET', '/_tasks?group_by=none');
    return tasks.filter(({ action }) => action.includes('export')).length;
  };

  test('shows its progress, and can be cancelled and restarted', async ({ windows }) => {
    const { page, files } = await opened(windows);
    await openDialog(page, 'CSV');
    await start(page);
    const first = await isUnderWay(page);
    await expect.poll(async () => (await progress(page))[1]).toBeGreaterThan(first);
    // A click outside does not close it.
    await page.mouse.click(5, 400);
    await look(page, 'discover-export-running');
    expect(await running()).toBe(1);
    await dialog(page).getByRole('button', { name: 'Cancel' }).click();
    await dialog(page).getByText('Cancelled. No file was saved.').waitFor();
    await look(page, 'discover-export-cancelled');
    // The server has stopped the export.
    await expect.poll(running, { timeout: 15_000 }).toBe(0);
    expect(files).toEqual([]);

    await slowLine(page, { latencyMs: 0, bytesPerSecond: -1 });
    const saved = page.waitForEvent('download');
    await start(page);
    const rows = readCsv(readFileSync(await (await saved).path(), 'utf8'));
    await dialog(page).getByText(/^Done: 300 of 300 events/).waitFor();
    expect(rows.map((row) => row[1])).toEqual(['number', ...Array.from({ length: LARGE }, (_, at) => String(at))]);
    expect(rows.slice(1).every((row) => row[2]?.length === LARGE_CHARS)).toBe(true);
  });

  test('ends with its dialog', async ({ windows }) => {
    const { page, files } = await opened(windows);
    await openDialog(page, 'NDJSON');
    await start(page);
    await isUnderWay(page);
    await page.keyboard.press('Escape');
    await dialog(page).waitFor({ state: 'detached' });
    await expect.poll(running, { timeout: 15_000 }).toBe(0);
    expect(files).toEqual([]);
  });

  test('that is refused shows the reason, and keeps the selected format', async ({ windows }) => {
    const page = await windows.open(firn, '/discover?i=large&c=number&t=now-1d,now', { routes: true });
    await page.locator(`[data-total="${LARGE}"]`).waitFor();
    const refusal = { error: { type: 'es_rejected_execution_exception', reason: 'too many exports [4] of this tenant', quota: 'x' }, status: 429 };
    await page.route('**/_firn/discover/export', (route) => route.fulfill({ status: 429, json: refusal }));
    await openDialog(page, 'NDJSON');
    await start(page);
    await dialog(page).getByRole('alert').getByText('too many exports [4] of this tenant').waitFor();
    await look(page, 'discover-export-refused');
    await page.unroute('**/_firn/discover/export');
    const saved = page.waitForEvent('download');
    await start(page);
    expect((await saved).suggestedFilename()).toMatch(/\.ndjson$/);
  });

  for (const format of ['CSV', 'NDJSON'] as const) {
    test(`as ${format} that fails shows the server’s reason, and saves no file`, async ({ windows }) => {
      const { page, files } = await opened(windows, /ERR_|net::/);
      await openDialog(page, format);
      await start(page);
      await isUnderWay(page);
      await firn.ask('DELETE', '/large');
      try {
        // On a slow connection the reason may be lost: browsers drop unread data when a connection breaks.
        await slowLine(page, { latencyMs: 0, bytesPerSecond: -1 });
        await dialog(page).getByText('Export failed; no file was saved').waitFor({ timeout: 30_000 });
        await dialog(page).getByRole('alert').getByText(/no such index \[large\]: it was deleted while its events were read/).waitFor();
        await look(page, `discover-export-broken-${format}`);
        expect(files).toEqual([]);
      } finally {
        await fill();
      }
    });
  }

  test('fails with its server, and can be restarted when the server is back', async ({ windows }) => {
    const { page, files } = await opened(windows, /ERR_|net::/);
    await openDialog(page, 'NDJSON');
    await start(page);
    await isUnderWay(page);
    await firn.kill();
    await dialog(page).getByText('Export failed; no file was saved').waitFor({ timeout: 30_000 });
    await dialog(page).getByText(/^connection lost after \d+ of 300 events$/).waitFor();
    expect(files).toEqual([]);
    await firn.go();
    await slowLine(page, { latencyMs: 0, bytesPerSecond: -1 });
    const saved = page.waitForEvent('download');
    await start(page);
    const lines = readFileSync(await (await saved).path(), 'utf8').trimEnd().split('\n');
    expect(lines.map((line) => (JSON.parse(line) as { number: number }).number)).toEqual(Array.from({ length: LARGE }, (_, at) => at));
  });
});
