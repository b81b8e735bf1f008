import { afterAll, beforeAll, describe } from 'vitest';
import { Firn } from './support/firn';
import { look } from './support/look';
import { expect, test } from './support/test';
import { WEB_TEMPLATE, webEvents } from './support/web-events';

/** Every page but Discover, with data: content, screenshots in both color schemes, and accessibility. */
describe('pages of a server with events', () => {
  let firn: Firn;

  beforeAll(async () => {
    firn = await Firn.start();
    await firn.ask('PUT', '/_index_template/web', WEB_TEMPLATE);
    await firn.index('web-shop', webEvents(500));
    await firn.generate('events-demo', { events: 2000 });
    await firn.ask('PUT', '/_firn/tenants/acme', { display_name: 'Acme Corp', retention: '90d', quotas: { concurrent_searches: 8 } });
    await firn.ask('PUT', '/_firn/tenants/tenant-001', { quotas: { ingest_events_per_second: 5000 } });
  });

  afterAll(() => firn.stop());

  test('indices', async ({ windows }) => {
    const page = await windows.open(firn, '/indices');
    await page.getByRole('link', { name: 'web-shop' }).waitFor();
    await look(page, 'indices');
    await page.getByRole('tab', { name: 'Indices', exact: true }).click();
    await page.getByRole('region', { name: 'indices', exact: true }).waitFor();
    await look(page, 'indices-all');
    await page.getByRole('tab', { name: 'Tiers' }).click();
    await page.getByRole('tabpanel', { name: 'Tiers' }).getByText('hot', { exact: true }).first().waitFor();
    await look(page, 'indices-tiers');
  });

  test('tenants', async ({ windows }) => {
    const page = await windows.open(firn, '/tenants');
    await page.getByText('Acme Corp').waitFor();
    await look(page, 'tenants');
    await page.getByRole('link', { name: 'acme' }).first().click();
    await page.getByRole('tab', { name: 'Usage' }).waitFor();
    await look(page, 'tenant');
  });

  test('one index, one repository and one tenant lead back to their lists, and an index to its events', async ({ windows }) => {
    const page = await windows.open(firn, '/indices');
    await firn.ask('PUT', '/_snapshot/archive', { type: 'fs', settings: { location: 'archive' } });
    const { indices } = await firn.ask<{ indices: { name: string }[] }>('GET', '/_resolve/index/.ds-web-shop-*?expand_wildcards=all');
    const index = indices[0]?.name ?? '';
    for (const [path, name, list, title] of [
      [`/indices/index/${index}`, index, 'Indices', 'Indices and tiers'],
      ['/snapshots/repository/archive', 'archive', 'Repositories', 'Snapshots and repositories'],
      ['/tenants/acme', 'acme', 'Tenants', 'Tenants'],
    ] as const) {
      await page.goto(`${firn.url}/app${path}`);
      const main = page.getByRole('main');
      await main.getByText(name, { exact: true }).last().waitFor();
      await main.getByRole('link', { name: list, exact: true }).click();
      await page.getByRole('heading', { level: 1, name: title, exact: true }).waitFor();
    }
    await page.goto(`${firn.url}/app/indices/index/${index}`);
    await page.getByRole('link', { name: 'Open in Discover' }).click();
    await page.locator('[data-total]').waitFor();
    expect(Number(await page.locator('[data-total]').getAttribute('data-total'))).toBeGreaterThan(400);
    expect(await page.getByRole('main').getByRole('button', { name: index }).count()).toBe(1);
  });

  test('pipelines', async ({ windows }) => {
    const page = await windows.open(firn, '/pipelines');
    await page.getByText('No pipelines').waitFor();
    await look(page, 'pipelines-empty');
    await firn.ask('PUT', '/_firn/pipelines/web', { source: { type: 'http' }, pack: 'nginx', index: 'logs-web', description: 'Access logs' });
    await page.getByText('running', { exact: true }).waitFor();
    const [, day, month, year, time] = new Date().toUTCString().split(' ');
    const line = `203.0.113.7 - ann [${day}/${month}/${year}:${time} +0000] "GET /index.html HTTP/1.1" 200 512 "-" "curl/8.5"`;
    const response = await fetch(`${firn.url}/_firn/pipelines/web/_events`, { method: 'POST', headers: { 'content-type': 'application/x-ndjson' }, body: `${line}\nno access log\n` });
    expect(await response.json()).toEqual({ read: 2, indexed: 1, filtered: 0, dead_lettered: 1 });
    await firn.ask('POST', '/dead-letters/_refresh');
    await page.getByRole('link', { name: 'web' }).click();
    await page.getByRole('table', { name: 'Dead letters' }).getByText('no access log').waitFor();
    await page.getByRole('button', { name: 'Replay' }).click();
    await page.getByText('0 replayed, 1 failed again').waitFor();
    await firn.ask('POST', '/logs-web/_refresh');
    await page.reload();
    await page.getByRole('table', { name: 'Common fields' }).getByText('http.response.status_code').waitFor();
    await page.getByLabel('Records').fill(line);
    await page.getByRole('button', { name: 'Simulate' }).click();
    await page.getByLabel('document 1', { exact: true }).getByText('"/index.html"').first().waitFor();
    await look(page, 'pipeline');
    await page.getByRole('button', { name: 'Delete', exact: true }).click();
    await page.getByRole('button', { name: 'Delete pipeline' }).click();
    await page.getByText('No pipelines').waitFor();
  });

  test('tasks', async ({ windows }) => {
    const page = await windows.open(firn, '/tasks');
    await page.getByText('No running tasks').waitFor();
    await look(page, 'tasks-empty');
  });

  test('activity', async ({ windows }) => {
    const page = await windows.open(firn, '/queries');
    await page.getByText('Traffic is not recorded').waitFor();
    await look(page, 'queries-empty');
  });

  test('an unknown page', async ({ windows }) => {
    const page = await windows.open(firn, '/nowhere');
    await page.getByText('Page not found').waitFor();
    expect(await page.getByRole('link', { name: 'Discover' }).count()).toBe(1);
  });
});
