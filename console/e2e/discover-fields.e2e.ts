import type { Page } from 'playwright-core';
import { afterAll, beforeAll, describe } from 'vitest';
import { Firn } from './support/firn';
import { look } from './support/look';
import { expect, test } from './support/test';

const totalIs = (page: Page, count: number) => page.locator(`[data-total="${count}"]`).waitFor();
const OPEN = '/discover?i=app&t=now-1h,now';
const LEVELS = ['info', 'info', 'info', 'warning', 'error'];

describe('fields of a dynamic mapping', () => {
  let firn: Firn;

  beforeAll(async () => {
    firn = await Firn.start({ settings: { 'discover.histogram.split_by': 'level' } });
    const at = (seconds: number) => new Date(Date.now() - seconds * 1000).toISOString();
    const events = Array.from({ length: 40 }, (_, number) => ({
      '@timestamp': at(number * 30),
      ...(number < 30 && { level: LEVELS[number % LEVELS.length] }),
      service: `Service ${String.fromCharCode(65 + ((number * 7) % 20))}`,
      status: number % 4 === 0 ? 500 : 200,
      // Longer than `ignore_above` of a keyword in dynamic mappings.
      ...(number < 5 && { trace: 'frame '.repeat(100) }),
    }));
    await firn.index('app', events);
  });

  afterAll(() => firn.stop());

  test('a text and its keyword sub-field are one field, with top values', async ({ windows }) => {
    const page = await windows.open(firn, OPEN);
    await totalIs(page, 40);
    const list = page.getByRole('list', { name: 'Fields' });
    const field = (name: string) => list.getByRole('button', { name: new RegExp(`^\\S+ ${name} `) });
    await field('level').waitFor();
    expect(await list.getByText('keyword').count()).toBe(0);
    expect(await field('level').innerText()).toMatch(/level\s*3/);
    // The breakdown offers it like a keyword.
    const split = page.getByRole('combobox', { name: 'Break down by' });
    expect(await split.locator('option:checked').innerText()).toBe('level');

    await field('level').click();
    const values = page.getByRole('list', { name: 'Top values of level' });
    await values.getByText('warning').waitFor();
    await look(page, 'discover-text-values');
    await values.getByRole('button', { name: 'Exclude level: info' }).click();
    await totalIs(page, 22);
    await page.getByRole('dialog').getByRole('button', { name: 'Exists' }).click();
    await totalIs(page, 12);
    expect(await page.getByRole('list', { name: 'Filters' }).getByRole('button', { name: /^Filter: / }).allInnerTexts()).toEqual(['level.keyword is not info', 'level exists']);
    await page.getByRole('button', { name: 'Clear' }).click();
    await totalIs(page, 40);

    // Long texts are not counted, but they exist.
    await page.keyboard.press('Escape');
    await page.getByLabel('Find a field').fill('trace');
    const trace = list.getByRole('button', { name: /^\S+ trace$/ });
    await page.waitForTimeout(1000);
    expect(await trace.innerText()).toBe('trace');
    expect(await list.locator('li[data-unused]').count()).toBe(0);
    await trace.click();
    await page.getByRole('dialog').getByRole('button', { name: 'Exists' }).click();
    await totalIs(page, 5);
  });

  test('a text column is sorted by whole values', async ({ windows }) => {
    const page = await windows.open(firn, OPEN);
    await totalIs(page, 40);
    await page.getByRole('button', { name: 'Add column service' }).click();
    const head = page.getByRole('columnheader', { name: /^service/ });
    await head.getByRole('button', { name: 'service', exact: true }).click();
    await page.waitForURL(/s=service\.keyword/);
    const cells = () => page.getByRole('row').locator('[role=gridcell]:nth-child(3)').allInnerTexts();
    await expect.poll(async () => (await cells()).slice(0, 3)).toEqual(['Service A', 'Service A', 'Service B']);
    expect(await head.getAttribute('aria-sort')).toBe('ascending');
    await look(page, 'discover-text-column');
    await page.getByRole('button', { name: 'Remove column service' }).click();
    await head.waitFor({ state: 'detached' });
  });

  test.for([
    ['kql', 'stauts: 500 and service: *', 'status: 500 and service: *'],
    ['lucene', 'stauts:500', 'status:500'],
  ] as const)('a misspelled field in %s is reported, and a click corrects it', async ([language, text, corrected], { windows }) => {
    const page = await windows.open(firn, `${OPEN}&l=${language}&q=${encodeURIComponent(text)}`);
    await totalIs(page, 0);
    const hint = page.getByRole('status').filter({ hasText: 'No field stauts. Did you mean status?' });
    await hint.waitFor();
    await look(page, `discover-misspelled-${language}`);
    await hint.getByRole('button', { name: 'status' }).click();
    await totalIs(page, 10);
    expect(new URL(page.url()).searchParams.get('q')).toBe(corrected);
    expect(await page.locator('.cm-content').innerText()).toBe(corrected);
    await hint.waitFor({ state: 'detached' });
  });

  test('an unknown field without a similar name has no suggestion', async ({ windows }) => {
    const page = await windows.open(firn, `${OPEN}&q=${encodeURIComponent('elsewhere: 1')}`);
    await page.getByRole('status').filter({ hasText: /^No field elsewhere\.$/ }).waitFor();
  });
});
