import type { Page } from 'playwright-core';
import { afterAll, beforeAll, describe } from 'vitest';
import { Firn } from './support/firn';
import { expect, test } from './support/test';

/** Adjacent integers that are equal as JavaScript numbers. */
const SAME = ['9007199254740992', '9007199254740993'] as const;
const SMALLEST = '-9223372036854775808';
const LARGEST = '18446744073709551615';

const totalIs = (page: Page, count: number) => page.locator(`[data-total="${count}"]`).waitFor();
const clipboard = (page: Page) => page.evaluate(() => navigator.clipboard.readText());

describe('integers beyond 2^53', () => {
  let firn: Firn;

  beforeAll(async () => {
    firn = await Firn.start();
    await firn.ask('PUT', '/ids', { mappings: { properties: { '@timestamp': { type: 'date' }, id: { type: 'long' }, counter: { type: 'unsigned_long' }, name: { type: 'keyword' } } } });
    const event = (name: string, id: string, counter: string, at: number) => `{"index":{"_id":"${name}"}}\n{"@timestamp":"${new Date(Date.now() - at * 1000).toISOString()}","name":"${name}","id":${id},"counter":${counter}}\n`;
    // Also next to text that is not Latin-1.
    const body = event('Łódź', SAME[1], LARGEST, 60) + event('even', SAME[0], '1', 120) + event('least', SMALLEST, '18446744073709551614', 180);
    const { errors } = await firn.ask<{ errors: boolean }>('POST', '/ids/_bulk?refresh=true', body);
    expect(errors).toBe(false);
  });

  afterAll(() => firn.stop());

  test('are shown, copied and filtered by digit by digit', async ({ windows }) => {
    const page = await windows.open(firn, '/discover?i=ids&t=now-1h,now&c=name,id,counter');
    await totalIs(page, 3);
    const row = page.getByRole('row').filter({ hasText: 'Łódź' }).first();
    await row.getByText(SAME[1], { exact: true }).waitFor();
    await row.getByText(LARGEST, { exact: true }).waitFor();
    await page.getByRole('row').filter({ hasText: 'least' }).first().getByText(SMALLEST, { exact: true }).waitFor();

    await row.getByRole('button', { name: 'Open this event' }).click();
    await page.getByRole('button', { name: 'Copy id', exact: true }).click();
    await expect.poll(() => clipboard(page)).toBe(SAME[1]);
    await page.getByRole('tab', { name: 'JSON' }).click();
    const json = page.getByRole('region', { name: 'Event as JSON' });
    expect(await json.innerText()).toMatch(new RegExp(`"id": ${SAME[1]},\\s+"counter": ${LARGEST}\\b`));
    await page.getByRole('button', { name: 'Copy JSON' }).click();
    await expect.poll(() => clipboard(page)).toContain(`"counter": ${LARGEST}`);

    await page.getByRole('tab', { name: 'Table' }).click();
    const asked: string[] = [];
    page.on('request', (request) => request.url().endsWith('/_firn/discover') && asked.push(request.postData() ?? ''));
    await page.getByRole('button', { name: 'Include this value of id' }).click();
    await page.getByRole('button', { name: `Filter: id is ${SAME[1]}`, exact: true }).waitFor();
    await totalIs(page, 1);
    expect(asked.at(-1)).toContain(`{"match_phrase":{"id":${SAME[1]}}}`);
    expect(new URL(page.url()).searchParams.get('f')).toBe(`[{"op":"is","field":"id","value":${SAME[1]}}]`);

    const other = await windows.open(firn, new URL(page.url()).pathname.replace('/app', '') + new URL(page.url()).search);
    await totalIs(other, 1);
    await other.getByRole('row').filter({ hasText: 'Łódź' }).first().waitFor();
    await other.getByRole('button', { name: `Filter: id is ${SAME[1]}`, exact: true }).click();
    await other.getByRole('menuitem', { name: 'Change to exclude' }).click();
    await totalIs(other, 2);
    await other.getByRole('row').filter({ hasText: 'even' }).first().waitFor();
  });

  test('are typed into filters digit by digit', async ({ windows }) => {
    const page = await windows.open(firn, '/discover?i=ids&t=now-1h,now&c=name,counter');
    await totalIs(page, 3);
    await page.getByRole('button', { name: 'Add filter' }).click();
    const dialog = page.getByRole('dialog', { name: 'Add filter' });
    await dialog.getByRole('textbox', { name: 'Field' }).fill('counter');
    await dialog.getByRole('textbox', { name: 'Value', exact: true }).fill(LARGEST);
    await dialog.getByRole('button', { name: 'Add filter' }).click();
    await page.getByRole('button', { name: `Filter: counter is ${LARGEST}`, exact: true }).waitFor();
    await totalIs(page, 1);
    await page.getByRole('button', { name: `Filter: counter is ${LARGEST}`, exact: true }).click();
    await page.getByRole('menuitem', { name: 'Edit' }).click();
    expect(await page.getByRole('textbox', { name: 'Value', exact: true }).inputValue()).toBe(LARGEST);
  });

  test('are exact as the start of the next page', async ({ windows }) => {
    const ids = Array.from({ length: 300 }, (_, at) => String(2n ** 53n + BigInt(at)));
    await firn.ask('PUT', '/rising', { mappings: { properties: { '@timestamp': { type: 'date' }, id: { type: 'long' } } } });
    await firn.ask('POST', '/rising/_bulk?refresh=true', ids.map((id) => `{"index":{}}\n{"@timestamp":"${new Date().toISOString()}","id":${id}}\n`).join(''));
    const page = await windows.open(firn, '/discover?i=rising&t=now-1h,now%2B1h&c=id&s=id');
    await totalIs(page, 300);
    await page.keyboard.press('e');
    for (let at = 99; at < 300; at += 200) {
      await page.keyboard.press('End');
      await page.locator(`#event-${at}[data-active]`).getByText(ids[at] ?? '', { exact: true }).waitFor();
      if (at === 99) await page.locator('#event-104').waitFor({ state: 'attached' });
    }
    await page.keyboard.press('PageUp');
    for (const at of [280, 290]) await page.locator(`#event-${at}`).getByText(ids[at] ?? '', { exact: true }).waitFor();
  });

  test('are counted as distinct values', async ({ windows }) => {
    const page = await windows.open(firn, '/discover?i=ids&t=now-1h,now');
    await totalIs(page, 3);
    await page.getByLabel('Find a field').fill('id');
    await page.getByRole('list', { name: 'Fields' }).getByRole('button', { name: /^\S+ id / }).click();
    const values = page.getByRole('list', { name: 'Top values of id' });
    for (const digits of [...SAME, SMALLEST]) await values.getByText(digits, { exact: true }).waitFor();
    await values.getByRole('button', { name: `Include id: ${SAME[1]}` }).click();
    await totalIs(page, 1);
    await page.getByRole('row').filter({ hasText: 'Łódź' }).first().waitFor();
  });
});
