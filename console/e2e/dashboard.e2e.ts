import type { Page } from 'playwright-core';
import { afterAll, beforeAll, describe } from 'vitest';
import { Firn } from './support/firn';
import { look } from './support/look';
import { expect, test } from './support/test';
import { SCANNER, WEB_TEMPLATE, webEvents } from './support/web-events';

const EVENTS = 1000;

describe('the dashboard', () => {
  let firn: Firn;

  beforeAll(async () => {
    firn = await Firn.start();
    await firn.ask('PUT', '/_index_template/web', WEB_TEMPLATE);
    await firn.index('web-shop', webEvents(EVENTS, { hours: 23 }));
  });

  afterAll(() => firn.stop());

  const panel = (page: Page, name: string) => page.getByRole('region', { name, exact: true });
  /** Lines of a list of values. */
  const values = (page: Page, name: string) => panel(page, name).getByRole('list').getByRole('listitem').allInnerTexts();
  const firstValue = async (page: Page, name: string) => (await values(page, name))[0]?.replaceAll(/\s+/g, ' ') ?? '';

  test('five panels show a scanner, and a click filters by it', async ({ windows }) => {
    const page = await windows.open(firn, '/dashboard?t=now-24h,now');
    await panel(page, 'Requests by status').getByRole('img', { name: `Requests by status: ${EVENTS.toLocaleString('en-GB')} events` }).waitFor();
    await expect.poll(() => firstValue(page, 'Clients')).toContain(`${SCANNER} 200 · 20.0%`);
    await expect.poll(() => firstValue(page, 'Not found (404): top URLs')).toContain('/wp-login.php');
    await expect.poll(() => values(page, 'Countries').then((all) => all.join(' '))).toContain('KP');
    await expect.poll(() => values(page, 'User agents').then((all) => all.join(' '))).toContain('zgrab/0.x');
    await look(page, 'dashboard');

    await panel(page, 'Clients').getByRole('button', { name: SCANNER }).click();
    await expect.poll(() => values(page, 'Countries').then((all) => all.length)).toBe(1);
    await expect.poll(() => firstValue(page, 'Countries')).toContain('KP 200 · 100.0%');
    expect(new URL(page.url()).searchParams.get('q')).toBe(`source.ip: "${SCANNER}"`);

    // The URL holds the whole state: another session sees the same.
    const other = await windows.open(firn, new URL(page.url()).pathname.replace('/app', '') + new URL(page.url()).search);
    await expect.poll(() => firstValue(other, 'Countries')).toContain('KP 200 · 100.0%');

    // And the events themselves are one click away.
    await panel(page, 'Not found (404): top URLs').getByRole('button', { name: /^Actions for panel/ }).click();
    const link = await page.getByRole('menuitem', { name: 'Open in Discover' }).getAttribute('href');
    expect(new URLSearchParams(link?.split('?')[1]).get('q')).toBe(`source.ip: "${SCANNER}" and http.response.status_code: 404`);
  });

  test('panels use saved searches, and a dashboard is saved and opened', async ({ windows }) => {
    const saved = await firn.ask<{ id: string }>('POST', '/_firn/saved/search', { title: 'errors of the shop', description: '', state: { search: 'i=web-shop&q=http.response.status_code%20%3E%3D%20500' } });
    const page = await windows.open(firn, '/dashboard?t=now-24h,now&i=web-shop');
    await page.getByRole('button', { name: 'Add panel' }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByLabel('Title').fill('Failures by path');
    await dialog.getByRole('textbox', { name: 'Field' }).fill('url.path');
    await dialog.getByRole('textbox', { name: 'Data', exact: true }).click();
    await page.getByRole('option', { name: /errors of the shop/ }).click();
    await look(page, 'dashboard-panel');
    await dialog.getByRole('button', { name: 'Add' }).click();
    const { count } = await firn.ask<{ count: number }>('POST', '/web-shop/_count', { query: { range: { 'http.response.status_code': { gte: 500 } } } });
    const shown = async () => (await values(page, 'Failures by path')).reduce((sum, line) => sum + Number(/(\d+) ·/.exec(line)?.[1] ?? 0), 0);
    await expect.poll(shown).toBe(count);
    expect(JSON.parse(new URL(page.url()).searchParams.get('p') ?? '[]')[5].saved).toBe(saved.id);

    await page.getByRole('button', { name: 'Dashboards' }).click();
    await page.getByRole('menuitem', { name: 'Save…' }).click();
    await dialog.getByLabel('Title').fill('The shop');
    await dialog.getByRole('button', { name: 'Save' }).click();
    await page.getByText('Dashboard saved. You can share its URL.').waitFor();

    const other = await windows.open(firn, '/dashboard');
    await other.getByRole('button', { name: 'Dashboards' }).click();
    await other.getByRole('menuitem', { name: 'Open…' }).click();
    await other.getByRole('button', { name: /^The shop/ }).click();
    await panel(other, 'Failures by path').getByRole('list').waitFor();
    expect(new URL(other.url()).searchParams.get('t')).toBe('now-24h,now');
  });

  test('each panel has an empty, failed and partial state', async ({ windows }) => {
    const page = await windows.open(firn, '/dashboard?t=2020-01-01T00:00:00Z,2020-01-02T00:00:00Z', { routes: true });
    await panel(page, 'Clients').getByText('No events found').waitFor();
    await look(page, 'dashboard-empty');

    // Each panel shows the server's error of an invalid query, and the page stays.
    await page.getByLabel('Filter all panels (KQL)').fill('status: (');
    await page.keyboard.press('Enter');
    await panel(page, 'Clients').getByRole('alert').waitFor();
    expect(await panel(page, 'Clients').getByRole('alert').innerText()).toMatch(/exception/);
    await look(page, 'dashboard-failed');

    // One panel fails, others do not; missing shards are listed.
    await page.route('**/_async_search*', async (route) => {
      const body = route.request().postData() ?? '';
      if (body.includes('user_agent')) return route.fulfill({ status: 429, json: { error: { type: 'es_rejected_execution_exception', reason: 'too many searches of this tenant' }, status: 429 } });
      if (!body.includes('country_iso_code')) return route.continue();
      const response = await route.fetch();
      const answer = (await response.json()) as { response: { _shards: object } };
      answer.response._shards = { total: 8, successful: 7, skipped: 0, failed: 1, failures: [{ index: 'web-shop', shard: 3, node: 'n', reason: { type: 'io', reason: 'a disk is gone' } }] };
      return route.fulfill({ response, json: answer });
    });
    await page.goto(`${firn.url}/app/dashboard?t=now-24h,now`);
    await panel(page, 'User agents').getByText('too many searches of this tenant').waitFor();
    await panel(page, 'Countries').getByText('1 of 8 shards failed').waitFor();
    await panel(page, 'Countries').getByRole('button', { name: 'Show missing shards' }).click();
    await panel(page, 'Countries').getByText('a disk is gone').waitFor();
    await expect.poll(() => firstValue(page, 'Clients')).toContain(SCANNER);
    await look(page, 'dashboard-partial');
  });

  test('frozen data is read only after its cost is accepted', async ({ windows }) => {
    const page = await windows.open(firn, '/start', { routes: true });
    let searches = 0;
    page.on('request', (request) => {
      if (request.method() === 'POST' && request.url().includes('_async_search')) searches += 1;
    });
    await page.route('**/_firn/discover/sources', async (route) => {
      const response = await route.fetch();
      const answer = (await response.json()) as { sources: { tier: string[] }[] };
      for (const source of answer.sources) source.tier = ['hot', 'frozen'];
      return route.fulfill({ response, json: answer });
    });
    await page.route(/\/_firn\/discover$/, (route) => {
      const { stages } = route.request().postDataJSON() as { stages: { stage: string; field?: string }[] };
      const events = [
        { event: 'opened', id: 'x', indices: ['web-shop'], time: null, now_ms: 0, query_dsl: {} },
        // A panel that would read little runs without asking.
        stages[0]?.field === 'source.ip' ? { event: 'progress', stage: 'top_values', shards: { total: 1, done: 0, skipped: 0, failed: 0 } } : { event: 'estimate', ...stages[0], requests: 420, bytes: 5_000_000, ms: 2500, splits: 3 },
      ];
      return route.fulfill({ contentType: 'text/event-stream', body: events.map((event) => `data: ${JSON.stringify(event)}\n\n`).join('') });
    });
    await page.goto(`${firn.url}/app/dashboard?t=now-24h,now`);
    const countries = panel(page, 'Countries');
    await countries.getByText('420 requests').waitFor();
    await expect.poll(() => firstValue(page, 'Clients')).toContain(SCANNER);
    expect(searches).toBe(1);
    await look(page, 'dashboard-frozen');
    await countries.getByRole('button', { name: 'Run anyway' }).click();
    await expect.poll(() => firstValue(page, 'Countries')).toContain('DE');
    expect(searches).toBe(2);
  });

  test('the search of a panel that unmounts is deleted on the server', async ({ windows }) => {
    const page = await windows.open(firn, '/dashboard?t=now-24h,now', { routes: true });
    await panel(page, 'Clients').getByRole('list').waitFor();
    const deleted: string[] = [];
    page.on('request', (request) => {
      if (request.method() === 'DELETE') deleted.push(new URL(request.url()).pathname);
    });
    // A search that never completes.
    await page.route(/_async_search/, (route) =>
      route.request().method() === 'DELETE'
        ? route.fulfill({ json: { acknowledged: true } })
        : route.fulfill({ json: { id: 'never-done', is_partial: true, is_running: true, response: { took: 1, timed_out: false, _shards: { total: 4, successful: 1, skipped: 0, failed: 0 }, hits: { hits: [] } } } }),
    );
    await page.getByRole('button', { name: 'Refresh' }).click();
    await page.getByRole('progressbar', { name: 'Completed shards' }).first().waitFor({ state: 'attached' });
    await page.getByRole('link', { name: 'Indices' }).click();
    await expect.poll(() => deleted.filter((path) => path === '/_async_search/never-done').length).toBe(5);
  });
});
