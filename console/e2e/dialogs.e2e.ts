import type { Locator, Page } from 'playwright-core';
import { afterAll, beforeAll, describe } from 'vitest';
import { Firn, OPERATOR } from './support/firn';
import { expect, test } from './support/test';
import { WEB_TEMPLATE, webEvents } from './support/web-events';

/** A dialog and its opener. */
interface Case {
  opener: (page: Page) => Locator;
  /** Menu item that opens the dialog, if the opener is a menu. */
  item?: string | RegExp;
  dialog: string | RegExp;
  /** Buttons that close it without an action. */
  closing?: (string | RegExp)[];
}

const button = (name: string | RegExp) => (page: Page) => page.getByRole('button', { name, exact: typeof name === 'string' }).first();
const inFocus = (locator: Locator) => locator.evaluate((element) => element === document.activeElement || element.contains(document.activeElement));

/** Describes the focused element, for failure messages. */
const focused = (page: Page) => page.evaluate(() => document.activeElement?.outerHTML.slice(0, 160) ?? 'nothing');

async function isGivenBack(page: Page, opener: Locator, how: string): Promise<void> {
  const wanted = await opener.evaluate((element) => element.outerHTML.slice(0, 160));
  await expect.poll(() => focused(page), { message: `after ${how}` }).toBe(wanted);
}

async function open(page: Page, { opener, item, dialog }: Case): Promise<Locator> {
  await opener(page).focus();
  await page.keyboard.press('Enter');
  if (item !== undefined) {
    // As keyboard users do: arrow down to the item, and Enter.
    await page.getByRole('menuitem', { name: item }).waitFor();
    for (let at = 0; at < 12 && !(await inFocus(page.getByRole('menuitem', { name: item }))); at += 1) await page.keyboard.press('ArrowDown');
    await page.keyboard.press('Enter');
  }
  const opened = page.getByRole('dialog', { name: dialog });
  await opened.waitFor();
  await expect.poll(() => inFocus(opened), { message: `${String(dialog)}: the focus goes into it` }).toBe(true);
  return opened;
}

/** Opens a dialog by keyboard, tabs through it, and closes it in each way: the focus returns to the opener. */
async function check(page: Page, one: Case): Promise<void> {
  const name = String(one.dialog);
  const dialog = await open(page, one);
  // Tab cycles through the dialog and never leaves it.
  for (const key of [...Array<string>(8).fill('Tab'), ...Array<string>(10).fill('Shift+Tab')]) {
    await page.keyboard.press(key);
    expect(await inFocus(dialog), `${name}: ${key} stays in it, but is at ${await focused(page)}`).toBe(true);
  }
  await page.keyboard.press('Escape');
  // The first Escape may close an open list.
  if (await dialog.isVisible()) await page.keyboard.press('Escape');
  await dialog.waitFor({ state: 'detached' });
  await isGivenBack(page, one.opener(page), `Esc in ${name}`);
  for (const closing of one.closing ?? []) {
    const again = await open(page, one);
    await again.getByRole('button', { name: closing }).last().click();
    await again.waitFor({ state: 'detached' });
    await isGivenBack(page, one.opener(page), `“${String(closing)}” in ${name}`);
  }
}

describe('dialogs return the focus', () => {
  let firn: Firn;

  beforeAll(async () => {
    firn = await Firn.start({ security: true });
    await firn.ask('PUT', '/_index_template/web', WEB_TEMPLATE);
    await firn.index('web-shop', webEvents(200));
    await firn.ask('PUT', '/_firn/tenants/acme', { quotas: {} });
    await firn.ask('PUT', '/_snapshot/archive', { type: 'fs', settings: { location: 'archive' } });
    await firn.ask('PUT', '/_snapshot/archive/first?wait_for_completion=true', { indices: 'web-shop' });
    await firn.ask('PUT', '/_slm/policy/nightly', { schedule: '0 30 1 * * ?', name: 'nightly', repository: 'archive', config: { indices: ['web-shop'] } });
  });

  afterAll(() => firn.stop());

  const FILTERS = encodeURIComponent(JSON.stringify([{ op: 'is', field: 'tenant', value: 'acme' }]));
  const DISCOVER = `/discover?i=web-shop&t=now-2d,now&f=${FILTERS}`;

  test('of Discover', async ({ windows }) => {
    const page = await windows.open(firn, DISCOVER, { as: OPERATOR });
    await page.locator('[data-total="200"]').waitFor();
    await page.getByRole('list', { name: 'Fields' }).getByRole('button', { name: /values in/ }).first().waitFor();
    await page.getByRole('row').nth(1).getByRole('button', { name: 'Open this event' }).click();
    for (const one of [
      { opener: button('Keyboard shortcuts'), dialog: 'Keyboard shortcuts' },
      { opener: button('Export'), dialog: 'Export events', closing: ['Close'] },
      { opener: button('Add filter'), dialog: 'Add filter', closing: ['Cancel'] },
      { opener: button('Filter: tenant is acme'), item: 'Edit', dialog: 'Edit filter', closing: ['Cancel'] },
      { opener: button('Saved'), dialog: 'Saved' },
      { opener: button(/^Time: /), dialog: /^Time: / },
      { opener: button('Source: web-shop'), dialog: /^Source: / },
      { opener: (page: Page) => page.getByRole('list', { name: 'Fields' }).getByRole('button', { name: /values in/ }).first(), dialog: /values in/ },
      { opener: button('Surrounding events'), dialog: 'Surrounding events', closing: ['Close'] },
    ] satisfies Case[]) {
      await check(page, one);
    }
    // Also with the keyboard shortcut.
    await page.keyboard.press('t');
    await page.getByRole('dialog', { name: /^Time: / }).waitFor();
    await page.keyboard.press('Escape');
    await isGivenBack(page, page.getByRole('button', { name: /^Time: / }), 'Esc after t');
  });

  test('but not after a click outside', async ({ windows }) => {
    const page = await windows.open(firn, DISCOVER, { as: OPERATOR });
    await page.locator('[data-total="200"]').waitFor();
    const fields = page.getByRole('list', { name: 'Fields' });
    await fields.getByRole('button', { name: /values in/ }).first().waitFor();
    const query = page.locator('.cm-content');
    await query.waitFor();
    const find = page.getByPlaceholder('Find a field');
    const field = fields.getByRole('button', { name: /values in/ }).first();
    for (const opener of [
      field,
      page.getByRole('button', { name: /^Time: / }),
      page.getByRole('button', { name: 'Saved', exact: true }),
      page.getByRole('button', { name: 'Share' }),
      page.getByRole('button', { name: 'Source: web-shop' }),
      page.getByRole('button', { name: 'Filter: tenant is acme', exact: true }),
    ]) {
      const name = await opener.innerText();
      for (const place of opener === field ? [query, find] : [query]) {
        await opener.click();
        await page.locator('.mantine-Popover-dropdown[role="dialog"], .mantine-Menu-dropdown').waitFor();
        await place.click();
        await page.locator('.mantine-Popover-dropdown[role="dialog"], .mantine-Menu-dropdown').waitFor({ state: 'detached' });
        // As shortcuts, "l" would toggle the live tail and "t" open the time picker.
        await page.keyboard.type('let thr');
        const typed = () => place.evaluate((element) => (element instanceof HTMLInputElement ? element.value : (element.textContent ?? '')));
        expect(await typed(), name).toBe('let thr');
        await place.fill('');
      }
    }
    // From one field to another.
    const second = fields.getByRole('button', { name: /values in/ }).nth(1);
    await field.click();
    const dialog = page.getByRole('dialog', { name: /values in/ });
    await expect.poll(() => inFocus(dialog)).toBe(true);
    await second.click();
    await page.waitForTimeout(300);
    await expect.poll(() => inFocus(dialog)).toBe(true);
    await page.keyboard.press('Escape');
    await isGivenBack(page, second, 'Esc in the second');
  });

  test('of Discover when they are submitted', async ({ windows }) => {
    const page = await windows.open(firn, DISCOVER, { as: OPERATOR });
    await page.locator('[data-total="200"]').waitFor();
    const add = button('Add filter')(page);
    let dialog = await open(page, { opener: () => add, dialog: 'Add filter' });
    await dialog.getByRole('textbox', { name: 'Field' }).fill('url.path');
    await page.keyboard.press('Escape');
    await dialog.getByRole('textbox', { name: 'Value', exact: true }).fill('/cart');
    await page.keyboard.press('Enter');
    await dialog.waitFor({ state: 'detached' });
    await isGivenBack(page, add, 'a filter that was added');

    const pill = button('Filter: url.path is /cart');
    dialog = await open(page, { opener: pill, item: 'Edit', dialog: 'Edit filter' });
    await dialog.getByRole('textbox', { name: 'Value', exact: true }).fill('/login');
    await page.keyboard.press('Enter');
    await dialog.waitFor({ state: 'detached' });
    await isGivenBack(page, button('Filter: url.path is /login')(page), 'a filter that was changed');
    await page.locator('[data-total]:not([data-total="0"])').waitFor();

    const exporting = button('Export')(page);
    dialog = await open(page, { opener: () => exporting, dialog: 'Export events' });
    await page.keyboard.press('Enter');
    await dialog.getByText(/^Done:/).waitFor();
    await expect.poll(() => inFocus(dialog.getByRole('button', { name: 'Close' }).last())).toBe(true);
    await page.keyboard.press('Enter');
    await dialog.waitFor({ state: 'detached' });
    await isGivenBack(page, exporting, 'an export');

    const saved = button('Saved')(page);
    dialog = await open(page, { opener: () => saved, dialog: 'Saved' });
    await expect.poll(() => inFocus(dialog.getByLabel('Save this search as'))).toBe(true);
    await page.keyboard.insertText('logins');
    await page.keyboard.press('Enter');
    await dialog.getByText('Saved.').waitFor();
    await expect.poll(() => inFocus(dialog.getByLabel('Save this search as'))).toBe(true);
    // Within the popover: back to the pressed button; if that is gone, to the first input.
    await dialog.getByRole('button', { name: 'Rename logins' }).press('Enter');
    await page.keyboard.insertText('s');
    await page.keyboard.press('Enter');
    await expect.poll(() => inFocus(dialog.getByRole('button', { name: /^Rename logins?s?$/ }))).toBe(true);
    await dialog.getByRole('button', { name: /^Delete logins?s?$/ }).press('Enter');
    await expect.poll(() => inFocus(dialog.getByRole('button', { name: 'Cancel' }))).toBe(true);
    await page.keyboard.press('Enter');
    await expect.poll(() => inFocus(dialog.getByRole('button', { name: /^Delete logins?s?$/ }))).toBe(true);
    await dialog.getByRole('button', { name: /^logins?s? / }).press('Enter');
    await dialog.waitFor({ state: 'detached' });
    await isGivenBack(page, saved, 'a search that was opened');

    dialog = await open(page, { opener: () => saved, dialog: 'Saved' });
    await dialog.getByRole('button', { name: /^Delete logins?s?$/ }).press('Enter');
    await dialog.getByRole('button', { name: 'Delete', exact: true }).press('Enter');
    await dialog.getByText('No saved searches yet.').waitFor();
    await expect.poll(() => inFocus(dialog.getByLabel('Save this search as'))).toBe(true);
    await page.keyboard.press('Escape');
    await isGivenBack(page, saved, 'Esc after a search was deleted');

    const time = button(/^Time: /)(page);
    dialog = await open(page, { opener: () => time, dialog: /^Time: / });
    await dialog.getByRole('button', { name: 'Last 7 days' }).press('Enter');
    await page.waitForURL(/t=now-7d/);
    await isGivenBack(page, time, 'a time that was chosen');

    const source = button('Source: web-shop')(page);
    dialog = await open(page, { opener: () => source, dialog: /^Source: / });
    await page.keyboard.insertText('web-shop');
    await page.keyboard.press('Enter');
    await dialog.waitFor({ state: 'detached' });
    await isGivenBack(page, source, 'a source that was chosen');
  });

  test('of all other pages', async ({ windows }) => {
    const page = await windows.open(firn, '/dashboard?i=web-shop&t=now-2d,now', { as: OPERATOR });
    const cases: [path: string, shown: string | RegExp, cases: Case[]][] = [
      [
        '/dashboard?i=web-shop&t=now-2d,now',
        'Clients',
        [
          { opener: button('Add panel'), dialog: 'Add panel', closing: ['Cancel'] },
          { opener: button('Dashboards'), item: 'Open…', dialog: 'Open dashboard' },
          { opener: button('Dashboards'), item: 'Save…', dialog: 'Save dashboard', closing: ['Cancel'] },
          { opener: button('Actions for panel Clients'), item: 'Edit', dialog: 'Edit panel', closing: ['Cancel'] },
        ],
      ],
      ['/snapshots', 'archive', [{ opener: button('Register repository'), dialog: 'Register repository', closing: ['Cancel'] }]],
      [
        '/snapshots/repository/archive',
        'first',
        [
          { opener: button('Take snapshot'), dialog: /snapshot/, closing: ['Cancel'] },
          { opener: button('Unregister'), dialog: /archive/, closing: ['Cancel'] },
          { opener: button('first'), dialog: 'first' },
          { opener: button('Actions for snapshot first'), item: 'Restore…', dialog: /first/, closing: ['Cancel'] },
          { opener: button('Actions for snapshot first'), item: 'Mount index…', dialog: /first/, closing: ['Cancel'] },
          { opener: button('Actions for snapshot first'), item: 'Delete…', dialog: 'Delete snapshot', closing: ['Cancel'] },
        ],
      ],
      [
        '/snapshots/policies',
        'nightly',
        [
          { opener: button('Create policy'), dialog: /policy/, closing: ['Cancel'] },
          { opener: button('Delete policy nightly'), dialog: /nightly/, closing: ['Cancel'] },
        ],
      ],
      ['/tenants', 'acme', [{ opener: button('Create tenant'), dialog: 'Create tenant', closing: ['Cancel'] }]],
      ['/tenants/acme/keys', 'No API keys', [
        { opener: button('Create API key'), dialog: 'Create API key for acme', closing: ['Cancel'] },
        { opener: button('View as tenant'), dialog: 'View as tenant acme', closing: ['Cancel'] },
        { opener: button('Delete'), dialog: 'Delete tenant acme', closing: ['Cancel'] },
      ]],
    ];
    for (const [path, shown, all] of cases) {
      await page.goto(`${firn.url}/app${path}`);
      await page.getByRole('main').getByText(shown).first().waitFor();
      for (const one of all) await check(page, one);
    }
  });

  test('and to the page if their opener is gone', async ({ windows }) => {
    const page = await windows.open(firn, '/snapshots/policies', { as: OPERATOR });
    const dialog = await open(page, { opener: button('Delete policy nightly'), dialog: /nightly/ });
    await dialog.getByRole('button', { name: 'Delete policy' }).press('Enter');
    await page.getByText('No snapshot policies').waitFor();
    await expect.poll(() => inFocus(page.getByRole('main'))).toBe(true);

    await page.goto(`${firn.url}/app/tenants/acme/keys`);
    const make = button('Create API key')(page);
    const key = await open(page, { opener: () => make, dialog: 'Create API key for acme' });
    await key.getByRole('button', { name: 'Create', exact: true }).press('Enter');
    const made = page.getByRole('dialog', { name: /^API key/ });
    await made.waitFor();
    await expect.poll(() => inFocus(made.getByRole('button', { name: 'Done' }))).toBe(true);
    await page.keyboard.press('Enter');
    await made.waitFor({ state: 'detached' });
    await isGivenBack(page, make, 'a key that was created');
  });
});
