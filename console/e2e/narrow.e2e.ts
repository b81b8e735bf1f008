import type { Page } from 'playwright-core';
import { afterAll, beforeAll, describe } from 'vitest';
import { Firn } from './support/firn';
import { look } from './support/look';
import { expect, test } from './support/test';

const PHONE = { context: { viewport: { width: 390, height: 844 }, hasTouch: true } };
const WEEK = '/discover?t=now-7d,now';

const totalIs = (page: Page, count: number) => page.locator(`[data-total="${count}"]`).waitFor();

/** Horizontal overflow of the page in pixels; the table and the navigation scroll separately. */
const beyond = (page: Page) =>
  page.evaluate(() => {
    const main = document.querySelector('main');
    return [document.documentElement, ...(main ? [main] : [])].map((part) => part.scrollWidth - part.clientWidth);
  });

/** Controls of the page that are partly or completely outside of the window. */
const outside = (page: Page) =>
  page.evaluate(() =>
    [...document.querySelectorAll<HTMLElement>('main button, main input, main select, main [role="textbox"]')]
      .filter((part) => !part.closest('[role="treegrid"], [role="region"]') && part.checkVisibility())
      .filter((part) => {
        const { left, right } = part.getBoundingClientRect();
        return left < -1 || right > window.innerWidth + 1;
      })
      .map((part) => part.outerHTML.slice(0, 200)),
  );

describe('a narrow window', () => {
  let firn: Firn;

  beforeAll(async () => {
    firn = await Firn.start();
    await firn.generate('events-demo', { events: 2000, days: 6 });
  });

  afterAll(() => firn.stop());

  test('shows all of Discover without scrolling sideways', async ({ windows }) => {
    const page = await windows.open(firn, WEEK, PHONE);
    await totalIs(page, 2000);
    await page.getByRole('slider').waitFor();
    await page.getByRole('row').nth(3).waitFor();
    expect(await beyond(page)).toEqual([0, 0]);
    expect(await outside(page)).toEqual([]);
    // There is enough height for events.
    const table = await page.getByRole('treegrid', { name: 'Events' }).locator('..').boundingBox();
    expect(table?.height).toBeGreaterThan(250);
    const editor = await page.locator('.cm-editor').boundingBox();
    expect(editor?.width).toBeGreaterThan(240);
    await look(page, 'narrow-discover');

    await page.getByRole('button', { name: 'Time: Last 7 days' }).tap();
    const menu = page.getByRole('dialog');
    await menu.getByText('Custom range').waitFor();
    const box = await menu.boundingBox();
    expect([(box?.x ?? -1) >= 0, (box?.x ?? 0) + (box?.width ?? 0) <= 390, (box?.y ?? 0) + (box?.height ?? 0) <= 844]).toEqual([true, true, true]);
    await look(page, 'narrow-time');
    await menu.getByRole('button', { name: 'Last 15 minutes' }).tap();
    await page.waitForURL(/t=now-15m/);
  });

  test('shows the fields in a drawer, by touch', async ({ windows }) => {
    const page = await windows.open(firn, WEEK, PHONE);
    await totalIs(page, 2000);
    expect(await page.getByLabel('Find a field').count()).toBe(0);
    await page.getByRole('button', { name: 'Fields', exact: true }).tap();
    const drawer = page.getByRole('dialog', { name: 'Fields' });
    await drawer.getByRole('button', { name: /values in/ }).nth(5).waitFor();
    await look(page, 'narrow-fields');
    await drawer.getByLabel('Find a field').fill('event_class');
    await drawer.getByRole('list', { name: 'Fields' }).getByRole('button', { name: /^\S+ event_class / }).tap();
    const values = page.getByRole('list', { name: 'Top values of event_class' });
    await values.getByText('Security').waitFor();
    const box = await values.boundingBox();
    expect([(box?.x ?? -1) >= 0, (box?.x ?? 0) + (box?.width ?? 0) <= 390]).toEqual([true, true]);
    await look(page, 'narrow-values');
    await values.getByRole('button', { name: 'Include event_class: Security' }).tap();
    const { count } = await firn.ask<{ count: number }>('POST', '/events-demo/_count', { query: { term: { event_class: 'Security' } } });
    await totalIs(page, count);
  });

  test('shows the fields in a drawer, by keyboard', async ({ windows }) => {
    const page = await windows.open(firn, WEEK, PHONE);
    await totalIs(page, 2000);
    const focused = () => page.evaluate(() => document.activeElement?.getAttribute('aria-label') ?? document.activeElement?.textContent?.slice(0, 50));
    const button = page.getByRole('button', { name: 'Fields', exact: true });
    await button.focus();
    await page.keyboard.press('Enter');
    await expect.poll(focused).toBe('Find a field');
    await page.keyboard.insertText('host');
    await page.getByRole('button', { name: 'Add column severity', exact: true }).waitFor({ state: 'detached' });
    // The focus stays in the drawer.
    for (let at = 0; at < 8; at += 1) {
      await page.keyboard.press('Tab');
      expect(await page.evaluate(() => document.activeElement?.closest('[role="dialog"]') !== null)).toBe(true);
    }
    await page.getByRole('button', { name: 'Add column host', exact: true }).press('Enter');
    await page.waitForURL(/c=host/);
    await page.keyboard.press('Escape');
    await page.getByRole('dialog').waitFor({ state: 'detached' });
    await expect.poll(focused).toBe('Fields');
    await page.keyboard.press('f');
    await expect.poll(focused).toBe('Find a field');

    // In a wide window they are next to the events again.
    await page.setViewportSize({ width: 1440, height: 900 });
    await page.getByRole('dialog').waitFor({ state: 'detached' });
    await page.getByRole('region', { name: 'Fields' }).getByLabel('Find a field').waitFor();
  });

  for (const path of ['/dashboard', '/alerts', '/rules', '/rules/new/query', '/indices', '/pipelines', '/snapshots', '/tasks', '/queries', '/tenants', '/start']) {
    test(`shows ${path} without scrolling sideways`, async ({ windows }) => {
      const page = await windows.open(firn, path, PHONE);
      await page.getByRole('heading', { level: 1 }).waitFor();
      await page.waitForLoadState('networkidle');
      expect(await beyond(page)).toEqual([0, 0]);
    });
  }
});
