import { readFileSync } from 'node:fs';
import type { Page } from 'playwright-core';
import { afterAll, beforeAll, describe } from 'vitest';
import { RecordCounter } from '../src/lib/record-counter';
import { Firn } from './support/firn';
import { look } from './support/look';
import { expect, test } from './support/test';

/** Element with the total number of events. */
const total = (page: Page) => page.locator('[data-total]');

const totalIs = (page: Page, count: number) => page.locator(`[data-total="${count}"]`).waitFor();

/** Number of events in the bars; null if there are no bars yet. */
async function bars(page: Page): Promise<number | null> {
  const [label] = await page.getByRole('slider').evaluateAll((sliders) => sliders.map((slider) => slider.getAttribute('aria-label') ?? ''));
  const count = /Events over time: ([\d,]+) in/.exec(label ?? '')?.[1];
  return count === undefined ? null : Number(count.replaceAll(',', ''));
}

async function query(page: Page, text: string): Promise<void> {
  await page.locator('.cm-content').click();
  await page.keyboard.press('ControlOrMeta+a');
  await page.keyboard.insertText(text);
  await page.keyboard.press('Enter');
}

/** Finds a field in the list and returns its button. */
async function field(page: Page, name: string) {
  await page.getByLabel('Find a field').fill(name);
  return page.getByRole('list', { name: 'Fields' }).getByRole('button', { name: new RegExp(`^\\S+ ${name} `) });
}

const WEEK = '/discover?t=now-7d,now';

describe('Discover', () => {
  let firn: Firn;
  const count = async (dsl: object) => (await firn.ask<{ count: number }>('POST', '/events-demo/_count', { query: dsl })).count;

  beforeAll(async () => {
    firn = await Firn.start();
    await firn.generate('events-demo', { events: 5000, days: 6 });
  });

  afterAll(() => firn.stop());

  test('shows events, bars and fields at once', async ({ windows }) => {
    const page = await windows.open(firn, WEEK);
    await totalIs(page, 5000);
    await page.getByRole('row').nth(5).waitFor();
    await page.getByRole('slider', { name: /Events over time: 5,000 in/ }).waitFor();
    await page.getByRole('list', { name: 'Fields' }).getByRole('button', { name: /values in/ }).nth(9).waitFor();
    await page.locator('canvas').waitFor();
    await look(page, 'discover');
  });

  test('finds, filters and goes back', async ({ windows }) => {
    const page = await windows.open(firn, WEEK);
    await totalIs(page, 5000);
    await page.keyboard.press('/');
    await page.keyboard.insertText('severity: critical');
    await page.keyboard.press('Enter');
    await totalIs(page, await count({ term: { severity: 'critical' } }));
    expect(new URL(page.url()).searchParams.get('q')).toBe('severity: critical');

    await (await field(page, 'event_class')).click();
    const values = page.getByRole('dialog');
    await values.getByRole('list', { name: 'Top values of event_class' }).getByText('Security').waitFor();
    await look(page, 'discover-field');
    await values.getByRole('button', { name: 'Include event_class: Security' }).click();
    const both = await count({ bool: { filter: [{ term: { severity: 'critical' } }, { term: { event_class: 'Security' } }] } });
    await totalIs(page, both);
    await values.waitFor({ state: 'hidden' });

    const pill = page.getByRole('button', { name: 'Filter: event_class is Security', exact: true });
    await pill.click();
    await page.getByRole('menuitem', { name: 'Change to exclude' }).click();
    await totalIs(page, (await count({ term: { severity: 'critical' } })) - both);
    await page.getByRole('button', { name: /^Filter: event_class is not Security/ }).click();
    await page.getByRole('menuitem', { name: 'Disable' }).click();
    await totalIs(page, await count({ term: { severity: 'critical' } }));
    await page.getByRole('button', { name: /^Remove filter: event_class/ }).click();
    await page.goBack();
    await page.getByRole('button', { name: /, disabled/ }).waitFor();
  });

  test('another query, or a refresh, scrolls to the newest events', async ({ windows }) => {
    const page = await windows.open(firn, WEEK);
    await totalIs(page, 5000);
    const scroller = page.getByRole('treegrid', { name: 'Events' }).locator('..');
    const down = async () => {
      await page.getByRole('row').nth(5).waitFor();
      await scroller.evaluate((element) => element.scrollTo({ top: 3000 }));
      await expect.poll(() => scroller.evaluate((element) => element.scrollTop)).toBe(3000);
    };
    const top = () => scroller.evaluate((element) => element.scrollTop);
    await down();
    await query(page, 'severity: *');
    await totalIs(page, 5000);
    await expect.poll(top).toBe(0);
    await page.locator('[role=row][aria-rowindex="2"]').waitFor();
    await down();
    await page.getByRole('button', { name: 'Search', exact: true }).click();
    await expect.poll(top).toBe(0);
    // Another column shows the same events.
    await down();
    await page.getByRole('button', { name: 'Add column severity' }).click();
    await page.getByRole('columnheader', { name: /^severity/ }).waitFor();
    await totalIs(page, 5000);
    expect(await top()).toBeGreaterThan(0);
  });

  test('adds a filter by hand', async ({ windows }) => {
    const page = await windows.open(firn, WEEK);
    await totalIs(page, 5000);
    await page.getByRole('button', { name: 'Add filter' }).click();
    await page.getByRole('dialog', { name: 'Add filter' }).getByRole('textbox', { name: 'Field' }).fill('severity');
    await page.getByRole('textbox', { name: 'Value', exact: true }).fill('critical');
    await page.getByRole('dialog').getByRole('button', { name: 'Add filter' }).click();
    await totalIs(page, await count({ term: { severity: 'critical' } }));
  });

  test('completes fields and values', async ({ windows }) => {
    const page = await windows.open(firn, WEEK);
    await totalIs(page, 5000);
    await page.locator('.cm-content').click();
    await page.keyboard.type('sever', { delay: 30 });
    await page.locator('.cm-tooltip-autocomplete:not(.cm-tooltip-autocomplete-disabled)').getByText('severity').waitFor();
    await page.keyboard.press('Tab');
    await page.keyboard.type(': crit', { delay: 30 });
    // Value suggestions have a timeout of a fifth of a second: on a busy machine it takes another key.
    const critical = page.locator('.cm-tooltip-autocomplete:not(.cm-tooltip-autocomplete-disabled)').getByText('critical');
    for (let tries = 0; tries < 10 && !(await critical.isVisible()); tries += 1) {
      await page.waitForTimeout(500);
      await page.keyboard.press('Backspace');
      await page.keyboard.type('t');
    }
    await critical.waitFor();
    await page.keyboard.press('Tab');
    await page.keyboard.press('Enter');
    await totalIs(page, await count({ term: { severity: 'critical' } }));
  });

  test('zooms with a brush, and with the keyboard', async ({ windows }) => {
    const page = await windows.open(firn, WEEK);
    await totalIs(page, 5000);
    const chart = page.locator('.u-over');
    await chart.waitFor();
    const box = await chart.boundingBox();
    if (!box) throw new Error('there is no chart');
    await page.mouse.move(box.x + box.width * 0.4, box.y + 40);
    await page.mouse.down();
    await page.mouse.move(box.x + box.width * 0.5, box.y + 40, { steps: 4 });
    await page.mouse.move(box.x + box.width * 0.6, box.y + 40, { steps: 4 });
    await page.mouse.up();
    await page.waitForURL(/t=20/);
    const [from, to] = (new URL(page.url()).searchParams.get('t') ?? '').split(',').map(decodeURIComponent);
    const brushed = await count({ range: { '@timestamp': { gte: from, lte: to } } });
    await totalIs(page, brushed);
    expect(brushed).toBeGreaterThan(100);
    expect(brushed).toBeLessThan(5000);

    await page.getByRole('slider').focus();
    for (const key of ['Home', 'ArrowRight', 'Shift+ArrowRight', 'Enter']) await page.keyboard.press(key);
    await page.waitForURL((url) => !(url.searchParams.get('t') ?? '').includes(from ?? '?'));
    await page.goBack();
    await totalIs(page, brushed);
    await page.getByRole('button', { name: 'Table', exact: true }).click();
    await page.getByRole('region', { name: 'Events over time as a table' }).waitFor();
  });

  test('opens an event, its link, and its surrounding events', async ({ windows }) => {
    const page = await windows.open(firn, WEEK);
    await totalIs(page, 5000);
    const first = page.getByRole('row').nth(1);
    await first.getByRole('button', { name: 'Open this event' }).click();
    await page.getByRole('tab', { name: 'JSON' }).waitFor();
    await look(page, 'discover-event');
    await page.getByRole('tab', { name: 'JSON' }).click();
    const json = JSON.parse(await page.getByRole('region', { name: 'Event as JSON' }).innerText()) as { _id: string };
    await page.getByRole('button', { name: 'Copy link' }).click();
    const link = await page.evaluate(() => navigator.clipboard.readText());

    await page.getByRole('button', { name: 'Surrounding events' }).click();
    const around = page.getByRole('treegrid', { name: 'Surrounding events' });
    await around.locator('[data-anchor]').waitFor();
    expect(await around.getByRole('row').count()).toBe(11);
    await look(page, 'discover-surrounding');

    const alone = await windows.open(firn, new URL(link).pathname.replace('/app', '') + new URL(link).search);
    await alone.getByRole('heading', { name: 'Event', exact: true }).waitFor();
    await alone.getByRole('cell', { name: json._id }).waitFor();
  });

  test('sorts, moves and resizes columns', async ({ windows }) => {
    const page = await windows.open(firn, WEEK);
    await totalIs(page, 5000);
    for (const name of ['host', 'severity']) {
      await page.getByLabel('Find a field').fill(name);
      // By keyboard: the list still moves, so a click could miss the button.
      await page.getByRole('button', { name: `Add column ${name}`, exact: true }).press('Enter');
      await page.getByRole('columnheader', { name: new RegExp(name) }).waitFor();
    }
    await page.getByRole('button', { name: 'severity', exact: true }).click();
    await page.getByRole('columnheader', { name: /severity/ }).and(page.locator('[aria-sort="ascending"]')).waitFor();
    await page.getByRole('separator', { name: 'Width of column host' }).focus();
    await page.keyboard.press('ArrowRight');
    await page.waitForURL(/c=host(%3A|:)\d+/);
    await page.getByRole('button', { name: 'Column severity', exact: true }).press('Enter');
    await page.getByRole('menuitem', { name: 'Move left' }).click();
    await page.waitForURL(/c=severity/);
    await look(page, 'discover-columns');
  });

  test('can be used with the keyboard', async ({ windows }) => {
    const page = await windows.open(firn, WEEK);
    await totalIs(page, 5000);
    await page.keyboard.press('e');
    for (const key of ['ArrowDown', 'ArrowDown', 'Enter']) await page.keyboard.press(key);
    await page.locator('#event-1[aria-expanded="true"]').waitFor();
    await page.keyboard.press('Enter');
    await page.locator('#event-1[aria-expanded="false"]').waitFor();
    await page.keyboard.press('End');
    await page.locator('#event-99[data-active]').waitFor();
    await page.keyboard.press('?');
    await page.getByRole('dialog', { name: 'Keyboard shortcuts' }).waitFor();
    await look(page, 'discover-keys');
  });

  test('selects time ranges', async ({ windows }) => {
    const page = await windows.open(firn, '/discover');
    await page.getByRole('button', { name: 'Time: Last 24 hours' }).click();
    await page.getByRole('dialog').getByText('Custom range').waitFor();
    await look(page, 'discover-time');
    await page.getByRole('button', { name: 'Last 7 days' }).click();
    await totalIs(page, 5000);
    await page.getByRole('button', { name: 'Time: Last 7 days' }).click();
    await page.getByLabel('How many').fill('3');
    await page.getByLabel('How many').press('Enter');
    await page.waitForURL(/t=now-3d/);
  });

  test('saves a search, opens it elsewhere, renames and removes it', async ({ windows }) => {
    const page = await windows.open(firn, WEEK);
    await totalIs(page, 5000);
    await query(page, 'event_class: Security');
    const security = await count({ term: { event_class: 'Security' } });
    await totalIs(page, security);
    await page.getByRole('button', { name: 'Saved', exact: true }).click();
    await page.getByLabel('Save this search as').fill('Blocked <b>threats</b>');
    await page.getByRole('button', { name: 'Save', exact: true }).click();
    await page.getByText('Update “Blocked <b>threats</b>”').waitFor();
    await look(page, 'discover-saved');

    const other = await windows.open(firn, '/discover');
    await other.getByRole('button', { name: 'Saved', exact: true }).click();
    await other.getByRole('list', { name: 'Saved searches' }).getByRole('button', { name: /^Blocked/ }).click();
    await totalIs(other, security);
    expect(await other.locator('.cm-content').innerText()).toBe('event_class: Security');

    await other.getByRole('button', { name: 'Saved', exact: true }).click();
    await other.getByRole('button', { name: 'Rename Blocked <b>threats</b>' }).click();
    await other.getByLabel('New name for').fill('Threats');
    await other.getByRole('button', { name: 'Rename', exact: true }).click();
    await other.getByRole('button', { name: 'Delete Threats' }).click();
    await other.getByRole('button', { name: 'Delete', exact: true }).click();
    await other.getByText('No saved searches yet.').waitFor();
  });

  test('shares its state as a link', async ({ windows }) => {
    const page = await windows.open(firn, WEEK);
    await totalIs(page, 5000);
    await query(page, 'severity: critical');
    const critical = await count({ term: { severity: 'critical' } });
    await totalIs(page, critical);
    await page.getByRole('button', { name: 'Share' }).click();
    await page.getByRole('menuitem', { name: 'Copy link with fixed times' }).click();
    const link = new URL(await page.evaluate(() => navigator.clipboard.readText()));
    expect(link.searchParams.get('t')).toMatch(/^20/);
    const other = await windows.open(firn, link.pathname.replace('/app', '') + link.search);
    await totalIs(other, critical);
  });

  test('exports all events that match', async ({ windows }) => {
    const page = await windows.open(firn, WEEK);
    await query(page, 'severity: critical');
    const critical = await count({ term: { severity: 'critical' } });
    await totalIs(page, critical);
    for (const [label, format] of [
      ['NDJSON', 'ndjson'],
      ['CSV', 'csv'],
    ] as const) {
      await page.getByRole('button', { name: 'Export', exact: true }).first().click();
      const dialog = page.getByRole('dialog', { name: 'Export events' });
      await dialog.getByText(label, { exact: true }).click();
      const saved = page.waitForEvent('download');
      await dialog.getByRole('button', { name: 'Export', exact: true }).click();
      const download = await saved;
      await dialog.getByText(/^Done:/).waitFor();
      const counter = new RecordCounter(format);
      counter.add(readFileSync(await download.path()));
      expect(counter.records).toBe(critical);
      expect(download.suggestedFilename()).toMatch(new RegExp(`\\.${format}$`));
      if (label === 'CSV') await look(page, 'discover-export');
      await dialog.getByRole('button', { name: 'Close' }).last().click();
    }
  });

  test('shows new events live', async ({ windows }) => {
    // With a fixed start: in a moving range the oldest event may drop out while a new one arrives.
    const from = new Date(Date.now() - 3_600_000).toISOString();
    const page = await windows.open(firn, `/discover?t=${from},now&c=message`);
    await total(page).waitFor();
    let tails = 0;
    page.on('request', (request) => (tails += request.url().endsWith('/tail') ? 1 : 0));
    const connected = page.waitForResponse((response) => response.url().endsWith('/tail'));
    await page.getByRole('button', { name: 'Live' }).click();
    await page.locator('[data-fresh="0"]').waitFor();
    await connected;
    await expect.poll(() => bars(page)).not.toBeNull();
    const before = (await bars(page)) ?? 0;
    const began = Date.now();
    await firn.ask('POST', '/events-demo/_doc', { '@timestamp': new Date().toISOString(), tenant: 'tenant-001', event_class: 'System', message: 'the newest of all' });
    const acknowledged = Date.now();
    await page.getByRole('row').nth(1).getByText('the newest of all').waitFor();
    const seen = Date.now() - acknowledged;
    console.info(`live tail: written in ${acknowledged - began} ms, on screen ${seen} ms after`);
    expect(seen).toBeLessThan(3000);
    await page.locator('[data-fresh="1"]').waitFor();
    // The bars include it soon after.
    await page.getByRole('slider', { name: new RegExp(`Events over time: ${before + 1} in`) }).waitFor();
    await page.waitForTimeout(1000);
    expect(tails).toBe(1);
    expect(await page.locator('[data-fresh]').first().getAttribute('data-fresh')).toBe('1');
    await page.getByRole('button', { name: 'Live' }).click();
    await firn.ask('POST', '/events-demo/_delete_by_query?refresh=true', { query: { match_phrase: { message: 'the newest of all' } } }).catch(() => undefined);
  });
});
