import { afterAll, beforeAll, describe } from 'vitest';
import { Firn } from './support/firn';
import { look } from './support/look';
import { slowLine } from './support/network';
import { expect, test } from './support/test';
import { WEB_TEMPLATE, webEvents } from './support/web-events';

describe('a server that is empty, or refuses', () => {
  let firn: Firn;

  beforeAll(async () => {
    firn = await Firn.start();
  });

  afterAll(() => firn.stop());

  test('each page of an empty server has an empty state', async ({ windows }) => {
    const page = await windows.open(firn, '/dashboard');
    await page.getByText('No events yet').waitFor();
    for (const [path, text] of [
      ['/indices', 'No data streams yet'],
      ['/indices/all', 'No indices found'],
      ['/tenants', 'No tenants yet'],
      ['/tasks', 'No running tasks'],
      ['/queries', 'Traffic is not recorded'],
      ['/pipelines', 'No pipelines'],
      ['/pipelines/none', 'Pipeline not found'],
      ['/snapshots', 'No repositories'],
      ['/snapshots/policies', 'No snapshot policies'],
      ['/snapshots/repository/none', 'Repository not found'],
    ] as const) {
      await page.goto(`${firn.url}/app${path}`);
      await page.getByText(text).waitFor();
    }
    await look(page, 'empty');
  });

  test('each page shows the server’s error of a failed request, and retries', async ({ windows }) => {
    const page = await windows.open(firn, '/indices', { routes: true });
    await page.getByText('No data streams yet').waitFor();
    for (const [path, asked] of [
      ['/indices', /\/_cat\/indices/],
      ['/tenants', /\/_firn\/tenants/],
      ['/tasks', /\/_tasks/],
      ['/pipelines', /\/_firn\/pipelines\/_stats/],
      ['/queries', /\/\.firn-traffic\/_search/],
      ['/snapshots', /\/_snapshot$/],
      ['/snapshots/policies', /\/_slm\/policy/],
      ['/dashboard', /\/_firn\/discover\/sources/],
      ['/start', /\/logs\/_search/],
    ] as const) {
      await page.route(asked, (route) => route.fulfill({ status: 503, json: { error: { type: 'unavailable_exception', reason: `no room for ${path}` }, status: 503 } }));
      await page.goto(`${firn.url}/app${path}`);
      await page.getByRole('alert').getByText(`no room for ${path}`).first().waitFor();
      expect(await page.getByRole('alert').first().innerText(), path).toContain('unavailable_exception');
      if (path === '/tasks') await look(page, 'failed');
      await page.unroute(asked);
      const again = page.getByRole('button', { name: 'Try again' });
      // A page that refreshes every few seconds may have recovered: then the button is gone before it is clicked.
      if ((await again.count()) > 0) await again.first().click({ timeout: 2000 }).catch(() => undefined);
      await page.getByText(`no room for ${path}`).first().waitFor({ state: 'detached' });
    }
  });
});

describe('a server that is slow, or gone', () => {
  let firn: Firn;

  beforeAll(async () => {
    firn = await Firn.start();
    await firn.ask('PUT', '/_index_template/web', WEB_TEMPLATE);
    await firn.index('web-shop', webEvents(50));
  });

  afterAll(() => firn.stop());

  test('a task is cancelled, and its client notices', async ({ windows }) => {
    const tail = await fetch(`${firn.url}/_firn/discover/tail`, {
      method: 'POST',
      headers: { 'content-type': 'application/json', accept: 'application/x-ndjson', 'x-opaque-id': 'the-tail' },
      body: JSON.stringify({ index: 'web-shop', time: { field: '@timestamp', from: 'now-1h', to: 'now', zone: 'UTC' } }),
    });
    const ended = tail.text().then(
      () => 'ended',
      () => 'broken off',
    );
    const page = await windows.open(firn, '/tasks');
    const row = page.getByRole('row').filter({ hasText: 'the-tail' });
    await row.waitFor();
    await look(page, 'tasks');
    await row.getByRole('button', { name: /^Cancel task/ }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Cancel task' }).click();
    await row.waitFor({ state: 'detached' });
    expect(['ended', 'broken off']).toContain(await ended);
  });

  test('a slow connection shows what is loading, and then the response', async ({ windows }) => {
    const page = await windows.open(firn, '/indices');
    await page.getByRole('link', { name: 'web-shop' }).waitFor();
    await slowLine(page, { latencyMs: 600, bytesPerSecond: 60_000 });
    await page.getByRole('link', { name: 'Tenants' }).click();
    await page.getByRole('status').filter({ hasText: 'Tenants…' }).waitFor();
    await page.getByText('No tenants yet').waitFor();
    await page.getByRole('link', { name: 'Dashboard' }).click();
    await page.getByRole('status').filter({ hasText: /…/ }).first().waitFor();
    await page.getByRole('region', { name: 'Clients', exact: true }).getByRole('list').waitFor();
  });

  test('the page reports a server that dies, and the live tail reconnects when it is back', async ({ windows }) => {
    const page = await windows.open(firn, '/discover?i=web-shop&t=now-2d,now&live=1', { allow: /ERR_|net::|Unable to preload/ });
    const found = page.getByText('GET /');
    await found.first().waitFor();
    await firn.kill();
    await page.getByText(/cannot be reached|ended the live tail/).first().waitFor();
    await look(page, 'discover-server-gone');
    await firn.go();
    await firn.index('web-shop', [{ '@timestamp': new Date().toISOString(), tenant: 'acme', message: 'back from the dead' }]);
    // Requests that failed with the server are retried with a button; the live tail reconnects automatically.
    const again = page.getByRole('button', { name: 'Try again' });
    if ((await again.count()) > 0) await again.first().click();
    await page.getByText('back from the dead').first().waitFor({ timeout: 20_000 });
  });
});
