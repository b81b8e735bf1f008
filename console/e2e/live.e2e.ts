import type { Page } from 'playwright-core';
import { afterAll, beforeAll, describe } from 'vitest';
import { Firn } from './support/firn';
import { look } from './support/look';
import { expect, test } from './support/test';

/** Maximum time from the acknowledgement of a bulk request to the event on screen. */
const SHOWN_MS = 1500;
/** Timeout of a single event on a busy machine. */
const PATIENCE_MS = 15_000;

const number = async (page: Page, attribute: string) => Number((await page.locator(`[${attribute}]`).first().getAttribute(attribute)) ?? Number.NaN);
const total = (page: Page) => number(page, 'data-total');
const fresh = (page: Page) => number(page, 'data-fresh');
const live = (page: Page) => page.getByRole('button', { name: 'Live' });

/** Switches the live tail on, and waits until it is connected. */
async function follow(page: Page): Promise<void> {
  const connected = page.waitForResponse((response) => response.url().endsWith('/tail') && response.status() === 200);
  // The page refreshes once when the tail has connected.
  const asked = page.waitForResponse((response) => response.url().endsWith('/_firn/discover'));
  await live(page).click();
  await connected;
  await asked;
  await page.locator('[data-fresh="0"]').waitFor();
  await page.getByRole('slider').waitFor();
}

/** Sum of the bars, from the label of the chart. */
async function bars(page: Page): Promise<number> {
  const label = await page.getByRole('slider').getAttribute('aria-label');
  return Number(/Events over time: ([\d,]+) in/.exec(label ?? '')?.[1]?.replaceAll(',', '') ?? Number.NaN);
}

describe('the live tail', () => {
  let firn: Firn;
  const OPEN = '/discover?i=web&t=now-1h,now';
  const event = (message: string) => ({ '@timestamp': new Date().toISOString(), host: 'web-1', message });

  /** Sends one event as shippers do, without waiting for a refresh of the index. */
  const write = async (message: string) => {
    const { errors } = await firn.ask<{ errors: boolean }>('POST', '/web/_bulk', `{"create":{}}\n${JSON.stringify(event(message))}\n`);
    expect(errors).toBe(false);
    return Date.now();
  };

  beforeAll(async () => {
    firn = await Firn.start();
    await firn.ask('PUT', '/web', { mappings: { properties: { '@timestamp': { type: 'date' }, host: { type: 'keyword' }, message: { type: 'text' } } } });
    await firn.index('web', Array.from({ length: 20 }, (_, at) => event(`before ${at}`)));
  });

  afterAll(() => firn.stop());

  test('shows an event soon after it was acknowledged, and counts it', async ({ windows }) => {
    const page = await windows.open(firn, `${OPEN}&q=fresh%20or%20before`);
    await page.locator('[data-total="20"]').waitFor();
    await follow(page);
    const times: number[] = [];
    for (let at = 0; at < 7; at += 1) {
      const acknowledged = await write(`fresh ${at}`);
      await page.getByRole('row').nth(1).getByText(`fresh ${at}`).waitFor({ timeout: PATIENCE_MS });
      times.push(Date.now() - acknowledged);
    }
    times.sort((one, other) => one - other);
    console.info(`live tail: on screen ${times.join(', ')} ms after the acknowledgement`);
    expect(times[3]).toBeLessThan(SHOWN_MS);
    // Matches are also marked in new events.
    expect(await page.getByRole('row').nth(1).locator('mark').allInnerTexts()).toEqual(['fresh']);
    // Total and bars follow, and are equal.
    await page.locator('[data-total="27"]').waitFor();
    await expect.poll(() => bars(page)).toBe(27);
    expect([await fresh(page), await page.locator('[data-bars]').count()]).toEqual([7, 0]);
    await look(page, 'discover-live');

    // Events that do not match are not shown.
    await write('something else');
    await page.waitForTimeout(2500);
    expect([await fresh(page), await total(page)]).toEqual([7, 27]);
  });

  test('can be paused: its events stay, and no new ones appear until it resumes', async ({ windows }) => {
    const page = await windows.open(firn, `${OPEN}&q=message:paused`);
    await page.locator('[data-total="0"]').waitFor();
    await follow(page);
    await write('paused first');
    await page.getByRole('row').nth(1).getByText('first').waitFor({ timeout: PATIENCE_MS });
    await live(page).click();
    await page.getByText('paused: 1 new').waitFor();
    // It was counted although the tail stopped right after it.
    await page.locator('[data-total="1"]').waitFor();
    await write('paused second');
    await page.waitForTimeout(3000);
    expect(await page.getByText('second').count()).toBe(0);
    await page.getByRole('row').nth(1).getByText('first').waitFor();
    await look(page, 'discover-paused');

    await follow(page);
    await page.getByRole('row').nth(1).getByText('second').waitFor();
    await page.locator('[data-total="2"]').waitFor();
    // Each once.
    expect(await page.getByRole('treegrid').getByText('first').count()).toBe(1);
    await live(page).click();
    await page.getByRole('button', { name: 'Search', exact: true }).click();
    await page.locator('[data-total="2"]').waitFor();
    await page.locator('[data-fresh]').waitFor({ state: 'detached' });
  });

  test('holds new events back while the user is busy, and counts them', async ({ windows }) => {
    await firn.index('web', Array.from({ length: 80 }, (_, at) => event(`held ${at}`)));
    const page = await windows.open(firn, `${OPEN}&q=message:held`);
    await page.locator('[data-total="80"]').waitFor();
    await follow(page);
    const table = page.getByRole('treegrid', { name: 'Events' });
    const scroller = table.locator('..');
    const resume = (count: number) => page.getByRole('button', { name: `${count} new ${count === 1 ? 'event' : 'events'} – resume` });
    const topOf = async (text: string) => (await table.getByText(text, { exact: true }).boundingBox())?.y;
    const newest = (text: string) => page.getByRole('row').nth(1).getByText(text).waitFor({ timeout: PATIENCE_MS });
    let written = 80;
    /** Writes events and waits until they are counted, shown or not. */
    const writeMore = async (...messages: string[]) => {
      for (const message of messages) await write(`held ${message}`);
      written += messages.length;
      await page.locator(`[data-total="${written}"]`).waitFor({ timeout: PATIENCE_MS });
    };

    // Scrolled: the rows stay, the counts continue.
    await scroller.evaluate((element) => element.scrollTo({ top: 460 }));
    await table.getByText('held 65', { exact: true }).waitFor();
    const before = await topOf('held 65');
    await writeMore('while scrolled', 'again');
    await resume(2).waitFor();
    expect(await topOf('held 65')).toBe(before);
    await expect.poll(() => bars(page)).toBe(82);
    expect(await fresh(page)).toBe(2);
    await look(page, 'discover-live-held');
    await resume(2).click();
    await newest('again');
    expect(await scroller.evaluate((element) => element.scrollTop)).toBe(0);
    await resume(2).waitFor({ state: 'detached' });

    // Scrolling back to the top shows new events at once.
    await scroller.evaluate((element) => element.scrollTo({ top: 460 }));
    await writeMore('unseen');
    await resume(1).waitFor();
    await scroller.evaluate((element) => element.scrollTo({ top: 0 }));
    await newest('unseen');

    // An open event.
    await page.getByRole('row').nth(1).getByRole('button', { name: 'Open this event' }).click();
    const opened = page.getByRole('cell', { name: 'held unseen' });
    await opened.waitFor();
    const place = await opened.boundingBox();
    await writeMore('behind an open one');
    await resume(1).waitFor();
    expect(await opened.boundingBox()).toEqual(place);
    await page.getByRole('button', { name: 'Close this event' }).click();
    await newest('behind an open one');

    // A selection.
    await page.getByRole('row').nth(2).locator('dd bdi').last().selectText();
    await writeMore('behind a selection');
    await resume(1).waitFor();
    expect(await page.evaluate(() => document.getSelection()?.toString())).not.toBe('');
    await resume(1).click();
    await newest('behind a selection');
    // Nothing is held any more.
    await writeMore('at once');
    await newest('at once');
  });

  test('reports a disconnect when the server dies, and reconnects when it is back', async ({ windows }) => {
    const page = await windows.open(firn, `${OPEN}&q=message:restart`, { allow: /ERR_|net::/ });
    await page.locator('[data-total="0"]').waitFor();
    await follow(page);
    await write('restart one');
    await page.getByRole('row').nth(1).getByText('one').waitFor({ timeout: PATIENCE_MS });
    await firn.kill();
    await page.getByText('Live tail disconnected; reconnecting').waitFor();
    // Its events stay.
    await page.getByRole('row').nth(1).getByText('one').waitFor();
    await look(page, 'discover-live-broken');
    await firn.go();
    // Written before the page has found the server again: it is not lost.
    await write('restart two');
    await page.getByText('Live tail disconnected; reconnecting').waitFor({ state: 'detached' });
    await page.getByRole('row').nth(1).getByText('two').waitFor({ timeout: PATIENCE_MS });
    await page.locator('[data-total="2"]').waitFor();
    await write('restart three');
    await page.getByRole('row').nth(1).getByText('three').waitFor({ timeout: PATIENCE_MS });
    await page.locator('[data-total="3"]').waitFor();
    // Each once, the newest first, including the events written during the disconnect.
    expect((await page.getByRole('treegrid').locator('dd bdi').allInnerTexts()).filter((text) => text.startsWith('restart'))).toEqual(['restart three', 'restart two', 'restart one']);
    await expect.poll(() => bars(page)).toBe(3);
  });
});
