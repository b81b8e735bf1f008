import type { Page } from 'playwright-core';
import { afterAll, beforeAll, describe } from 'vitest';
import { Firn } from './support/firn';
import { look } from './support/look';
import { expect, test } from './support/test';
import { WEB_TEMPLATE, webEvents } from './support/web-events';

describe('snapshots', () => {
  let firn: Firn;

  beforeAll(async () => {
    firn = await Firn.start();
    await firn.ask('PUT', '/_index_template/web', WEB_TEMPLATE);
    await firn.index('web-shop', webEvents(200));
    await firn.ask('PUT', '/_snapshot/archive', { type: 'fs', settings: { location: 'archive' } });
    await firn.ask('PUT', '/_snapshot/archive/first?wait_for_completion=true', { indices: 'web-shop', include_global_state: false });
  });

  afterAll(() => firn.stop());

  const inDialog = (page: Page) => page.getByRole('dialog');

  test('a repository is registered, verified and unregistered', async ({ windows }) => {
    const page = await windows.open(firn, '/snapshots');
    await page.getByRole('link', { name: 'archive' }).waitFor();
    await page.getByRole('button', { name: 'Register repository' }).click();
    await inDialog(page).getByLabel('Name').fill('second');
    await inDialog(page).getByRole('textbox', { name: 'Type' }).click();
    await page.getByRole('option', { name: 'Folder' }).click();
    // A folder that no setting allows: the dialog shows the server's error and keeps its fields.
    await inDialog(page).getByLabel('Location').fill('/etc');
    await inDialog(page).getByRole('button', { name: 'Register' }).click();
    await inDialog(page).getByRole('alert').getByText(/location \[\/etc\]/).waitFor();
    await look(page, 'snapshots-register');
    await inDialog(page).getByLabel('Location').fill('second');
    await inDialog(page).getByRole('button', { name: 'Register' }).click();
    await page.getByRole('heading', { name: 'second' }).waitFor();
    await page.getByText('No snapshots yet').waitFor();
    await page.getByRole('button', { name: 'Verify repository second' }).click();
    await page.getByText('second is readable and writable from').waitFor();
    await page.getByRole('button', { name: 'Unregister' }).click();
    await inDialog(page).getByRole('button', { name: 'Unregister' }).click();
    await page.getByRole('link', { name: 'archive' }).waitFor();
    expect(Object.keys(await firn.ask<object>('GET', '/_snapshot'))).toEqual(['archive']);
    await look(page, 'snapshots');
  });

  test('a snapshot is taken, restored under another name, mounted, and deleted', async ({ windows }) => {
    const page = await windows.open(firn, '/snapshots/repository/archive');
    await page.getByRole('button', { name: 'Take snapshot' }).click();
    await inDialog(page).getByLabel('Name').fill('by-hand');
    await inDialog(page).getByRole('button', { name: 'Take snapshot' }).click();
    const row = page.getByRole('row').filter({ hasText: 'by-hand' });
    await expect.poll(() => row.allInnerTexts().then((rows) => rows.map((text) => text.includes('Complete'))), { timeout: 15_000 }).toEqual([true]);
    await look(page, 'repository');

    const open = async (deed: string) => {
      await page.getByRole('button', { name: 'Actions for snapshot by-hand' }).click();
      await page.getByRole('menuitem', { name: deed }).click();
    };
    await open('Restore…');
    await look(page, 'snapshot-restore');
    await inDialog(page).getByRole('button', { name: 'Restore' }).click();
    await page.getByText('Restore started').waitFor();
    await expect.poll(() => count(firn, 'restored-web-shop'), { timeout: 10_000 }).toBe(200);

    await open('Mount index…');
    await inDialog(page).getByRole('radio', { name: /^Cold/ }).check();
    await inDialog(page).getByLabel('Name of the mounted index').fill('mounted');
    await inDialog(page).getByRole('button', { name: 'Mount' }).click();
    await page.getByText('mounted is now searchable.').waitFor();
    expect(await count(firn, 'mounted')).toBe(200);

    await page.getByRole('button', { name: 'by-hand', exact: true }).click();
    await inDialog(page).getByText('Indices (1)').waitFor();
    await page.keyboard.press('Escape');

    await firn.ask('DELETE', '/mounted');
    await open('Delete…');
    const deed = inDialog(page).getByRole('button', { name: 'Delete snapshot' });
    expect(await deed.isDisabled()).toBe(true);
    await inDialog(page).getByLabel('Type by-hand to confirm').fill('by-hand');
    await deed.click();
    await row.waitFor({ state: 'detached' });
  });

  test('an analysis shows a report, or the reason of a failure', async ({ windows }) => {
    const page = await windows.open(firn, '/snapshots/repository/archive/analysis');
    await page.getByLabel('Objects').fill('20');
    await page.getByLabel('Largest object').fill('lots');
    await page.getByRole('button', { name: 'Analyze' }).click();
    await page.getByRole('alert').getByText(/lots/).waitFor();
    await page.getByLabel('Largest object').fill('1mb');
    await page.getByRole('button', { name: 'Analyze' }).click();
    const report = page.getByRole('region', { name: 'Analysis report' });
    await report.getByText('Storage passed all consistency checks').waitFor();
    // Every request type has a row with a measured median, and its marks are within the axis in this order. A median that
    // is the smallest of all and a power of ten is at the very start of the axis.
    for (const kind of ['write', 'overwrite', 'conditional write', 'read', 'ranged read', 'list', 'delete']) {
      const row = report.getByRole('row', { name: new RegExp(`^${kind} `) });
      const figures = await row.locator('td:not([aria-hidden])').allInnerTexts();
      expect(Number.parseFloat(figures[2] ?? ''), `${kind}: ${figures.join(' | ')}`).toBeGreaterThan(0);
      const [median, slowest] = await row.locator('td[aria-hidden] span').evaluateAll((all) => all.slice(-2).map((mark) => Number.parseFloat((mark as HTMLElement).style.insetInlineStart)));
      expect(median, kind).toBeGreaterThanOrEqual(0);
      expect(slowest, kind).toBeGreaterThanOrEqual(median ?? 100);
      expect(slowest, kind).toBeLessThanOrEqual(100);
    }
    await look(page, 'repository-analysis');
  });

  test('a policy is created, run and deleted', async ({ windows }) => {
    const page = await windows.open(firn, '/snapshots/policies');
    await page.getByText('No snapshot policies').waitFor();
    await page.getByRole('button', { name: 'Create policy' }).click();
    await inDialog(page).getByLabel('Indices and data streams').fill('web-shop,');
    await look(page, 'snapshot-policy');
    await inDialog(page).getByRole('button', { name: 'Create', exact: true }).click();
    const row = page.getByRole('row').filter({ hasText: 'nightly' });
    await row.getByText('No runs yet').waitFor();
    await page.getByRole('button', { name: 'Run now: policy nightly' }).click();
    await row.getByText('Complete').waitFor();
    // A failed policy shows the reason.
    await firn.ask('PUT', '/_slm/policy/broken', { schedule: '0 30 1 * * ?', name: 'broken', repository: 'archive', config: { indices: ['no-such-index'] } });
    await page.getByRole('button', { name: 'Run now: policy broken' }).click();
    await page.getByRole('alert').getByText(/no-such-index/).waitFor();
    await look(page, 'snapshot-policies');
    await firn.ask('DELETE', '/_slm/policy/broken');
    await page.getByRole('button', { name: 'Pause all policies' }).click();
    await page.getByText('Paused: no policy takes snapshots').waitFor();
    await page.getByRole('button', { name: 'Resume all policies' }).click();
    await page.getByRole('button', { name: 'Delete policy broken' }).waitFor({ state: 'detached' });
    await page.getByRole('button', { name: 'Delete policy nightly' }).click();
    await inDialog(page).getByRole('button', { name: 'Delete policy' }).click();
    await page.getByText('No snapshot policies').waitFor();
  });
});

const count = async (firn: Firn, index: string): Promise<number> => (await firn.ask<{ count: number }>('GET', `/${index}/_count?ignore_unavailable=true`).catch(() => ({ count: -1 }))).count;
