import type { Page } from 'playwright-core';
import { afterAll, beforeAll, describe } from 'vitest';
import { type Account, Firn, OPERATOR } from './support/firn';
import { look } from './support/look';
import { expect, signIn, test, type Windows } from './support/test';
import { WEB_TEMPLATE, webEvents } from './support/web-events';

const ANN: Account = { username: 'ann', password: 'ann of acme' };
const CARL: Account = { username: 'carl', password: 'carl of acme' };
const BOB: Account = { username: 'bob', password: 'bob of globex' };

describe('access of users and tenants', () => {
  let firn: Firn;

  beforeAll(async () => {
    firn = await Firn.start({ security: true });
    await firn.ask('PUT', '/_index_template/web', WEB_TEMPLATE);
    await firn.addTenant('acme', ANN);
    await firn.addTenant('acme', CARL);
    await firn.addTenant('globex', BOB);
    await firn.index('web-shop', webEvents(300, { tenant: 'acme' }));
    await firn.index('web-shop', webEvents(200, { tenant: 'globex' }));
  });

  afterAll(() => firn.stop());

  const DASHBOARD = '/dashboard?i=web-shop&t=now-2d,now';
  const status = (page: Page, events: number) => page.getByRole('img', { name: `Requests by status: ${events} events` });

  test('a wrong password is refused, the right one opens, and signing out closes', async ({ windows }) => {
    const page = await windows.open(firn, DASHBOARD);
    await page.getByRole('heading', { name: 'Sign in to firn' }).waitFor();
    await look(page, 'sign-in');
    // The page behind the sign-in is already loading.
    const scripts = () => page.evaluate(() => performance.getEntriesByType('resource').map(({ name }) => name));
    await expect.poll(scripts).toContainEqual(expect.stringMatching(/\/assets\/dashboard-[^/]+\.css$/));
    await page.getByLabel('Username').fill(ANN.username);
    await page.getByLabel(/^Password/).fill('not hers');
    await page.getByRole('button', { name: 'Sign in', exact: true }).click();
    await page.getByRole('alert').waitFor();
    expect(await page.getByRole('alert').innerText()).toContain('Wrong username or password');
    await look(page, 'sign-in-refused');

    await signIn(page, ANN);
    // The sign-in leads to the page of the link.
    await status(page, 300).waitFor();
    const cookies = await page.context().cookies();
    expect(cookies.map(({ httpOnly, sameSite }) => [httpOnly, sameSite])).toEqual([[true, 'Strict']]);
    expect(await page.evaluate(() => document.cookie)).toBe('');

    await page.getByRole('button', { name: 'ann' }).click();
    await page.getByRole('menuitem', { name: 'Sign out' }).click();
    await page.getByRole('heading', { name: 'Sign in to firn' }).waitFor();
    // The old cookie is no longer valid.
    await page.context().addCookies(cookies);
    await page.goto(`${firn.url}/app/dashboard`);
    await page.getByRole('heading', { name: 'Sign in to firn' }).waitFor();
  });

  test('a search continues after a new sign-in if its session expires', async ({ windows }) => {
    const page = await windows.open(firn, `${DASHBOARD}&q=${encodeURIComponent('http.response.status_code: 404')}`, { as: CARL });
    await status(page, 60).waitFor();
    // A password change ends the existing sessions.
    const renewed = { ...CARL, password: 'another of carl' };
    await firn.ask('PUT', `/_security/user/${CARL.username}/_password`, { password: renewed.password });
    await page.getByLabel('Filter all panels (KQL)').fill('http.response.status_code < 400');
    await page.keyboard.press('Enter');
    const dialog = page.getByRole('dialog', { name: 'Sign in again' });
    await dialog.waitFor();
    await look(page, 'sign-in-again');
    expect(await dialog.getByLabel('Username').inputValue()).toBe(CARL.username);
    await dialog.getByLabel(/^Password/).fill(renewed.password);
    await dialog.getByRole('button', { name: 'Sign in', exact: true }).click();
    await dialog.waitFor({ state: 'detached' });
    const { count } = await firn.ask<{ count: number }>('POST', '/web-shop/_count', {
      query: { bool: { filter: [{ term: { tenant: 'acme' } }, { range: { 'http.response.status_code': { lt: 400 } } }] } },
    });
    await status(page, count).waitFor();
    expect(new URL(page.url()).searchParams.get('q')).toBe('http.response.status_code < 400');
    await firn.ask('PUT', `/_security/user/${CARL.username}/_password`, { password: CARL.password });
  });

  test('a link works for users of the tenant, and shows other tenants nothing of it', async ({ windows }) => {
    const page = await windows.open(firn, DASHBOARD, { as: ANN });
    await status(page, 300).waitFor();
    const saved = await page.evaluate(async () => {
      const session = (await (await fetch('/_firn/session')).json()) as { csrf: string };
      const body = JSON.stringify({ title: 'probes', description: '', state: { search: 'i=web-shop&q=http.response.status_code%3A%20404' } });
      const answer = await fetch('/_firn/saved/search', { method: 'POST', headers: { 'content-type': 'application/json', 'x-firn-csrf': session.csrf }, body });
      return (await answer.json()) as { id: string };
    });
    expect(saved.id).toBeTruthy();
    const panels = [{ title: 'Probes', kind: 'top', field: 'url.path', saved: saved.id }, { title: 'Tenants', kind: 'top', field: 'tenant' }];
    const link = `${DASHBOARD}&p=${encodeURIComponent(JSON.stringify(panels))}`;
    const region = (of: Page, name: string) => of.getByRole('region', { name, exact: true });

    const carl = await windows.open(firn, link, { as: CARL });
    await region(carl, 'Probes').getByRole('listitem').filter({ hasText: '/wp-login.php' }).waitFor();

    const bob = await windows.open(firn, link, { as: BOB });
    await region(bob, 'Tenants').getByRole('listitem').filter({ hasText: 'globex' }).waitFor();
    expect(await region(bob, 'Tenants').getByRole('listitem').count()).toBe(1);
    await region(bob, 'Probes').getByRole('alert').waitFor();
    const text = await bob.locator('body').innerText();
    expect(text).not.toContain('probes');
    expect(text).not.toContain('acme');

    // Tenant users have no links to the operators' pages, and get no data there.
    expect(await bob.getByRole('navigation', { name: 'Pages' }).getByRole('link').allInnerTexts()).toEqual(['Discover', 'Dashboard', 'Alerts', 'Indices', 'Send events']);
    for (const path of ['/tenants', '/tenants/initech', '/tasks', '/snapshots']) {
      await bob.goto(`${firn.url}/app${path}`);
      await bob.getByRole('alert').first().waitFor();
      expect(await bob.locator('main').innerText(), path).not.toMatch(/acme|300/i);
    }
    // The activity page refuses tenant users.
    await bob.goto(`${firn.url}/app/queries`);
    await bob.getByText('This page is for operators').waitFor();
  });

  test('an operator views as a tenant with a reason in the audit log', async ({ windows }) => {
    const page = await windows.open(firn, '/tenants/acme', { as: OPERATOR });
    await page.getByRole('button', { name: 'View as tenant' }).click();
    const dialog = page.getByRole('dialog');
    const take = dialog.getByRole('button', { name: 'View as tenant' });
    expect(await take.isDisabled()).toBe(true);
    await dialog.getByLabel('Reason').fill('ticket 4711');
    await look(page, 'view-as');
    await take.click();
    const banner = page.getByRole('status').filter({ hasText: 'Viewing as tenant acme' });
    await banner.waitFor();
    expect(await page.getByRole('link', { name: 'Tenants' }).count()).toBe(0);
    await page.goto(`${firn.url}/app${DASHBOARD}`);
    await status(page, 300).waitFor();
    await look(page, 'dashboard-as-tenant');
    await page.getByRole('button', { name: 'Exit tenant view' }).click();
    await banner.waitFor({ state: 'detached' });
    await status(page, 500).waitFor();

    await page.goto(`${firn.url}/app/queries/audit`);
    const seen = () =>
      firn
        .ask<{ hits: { hits: { _source: { user: { name: string } } }[] } }>('POST', '/.firn-audit/_search', { query: { term: { 'view.reason': 'ticket 4711' } } })
        .then(({ hits }) => new Set(hits.hits.map(({ _source }) => _source.user.name)));
    await expect.poll(seen, { timeout: 15_000 }).toEqual(new Set([OPERATOR.username]));
    await page.reload();
    const log = page.getByRole('region', { name: 'audit log' });
    const taken = log.getByRole('row').filter({ hasText: '/_firn/session/view' }).filter({ hasText: 'ticket 4711' });
    await taken.first().waitFor();
    expect(await taken.first().innerText()).toContain('acme');
    await look(page, 'audit-view-as');
    // Each window fetched its session before the sign-in; that does not count as a failed authentication.
    const failed = { bool: { filter: [{ term: { 'event.action': 'authentication_failed' } }, { term: { 'url.path': '/_firn/session' } }], must_not: [{ exists: { field: 'user.name' } }] } };
    expect((await firn.ask<{ count: number }>('POST', '/.firn-audit/_count', { query: failed })).count).toBe(0);
  });

  describe.each([
    ['notifies the others', false],
    ['without notifying the others is noticed with their next request', true],
  ])('a tab that changes the session %s', (_, isDeaf) => {
    /** Two tabs of one browser, the first of them at the dashboard. */
    const tabs = async (windows: Windows, as: Account): Promise<[Page, Page]> => {
      const one = await windows.open(firn, DASHBOARD, { as });
      if (isDeaf) await one.context().addInitScript(() => (BroadcastChannel.prototype.postMessage = () => undefined));
      await one.reload();
      await status(one, as === OPERATOR ? 500 : 300).waitFor();
      const other = await one.context().newPage();
      other.setDefaultTimeout(15_000);
      return [one, other];
    };
    const askAgain = async (page: Page) => {
      if (!isDeaf) return;
      await page.getByLabel('Filter all panels (KQL)').fill('http.response.status_code > 0');
      await page.keyboard.press('Enter');
    };
    const banner = (page: Page) => page.getByRole('status').filter({ hasText: 'Viewing as tenant acme' });

    test('by starting and ending a tenant view', async ({ windows }) => {
      const [one, other] = await tabs(windows, OPERATOR);
      await other.goto(`${firn.url}/app/tenants/acme`);
      await other.getByRole('button', { name: 'View as tenant' }).click();
      await other.getByRole('dialog').getByLabel('Reason').fill('ticket 4712');
      await other.getByRole('dialog').getByRole('button', { name: 'View as tenant' }).click();
      await banner(other).waitFor();
      await askAgain(one);
      await banner(one).waitFor();
      await status(one, 300).waitFor();

      await other.getByRole('button', { name: 'Exit tenant view' }).click();
      await banner(other).waitFor({ state: 'detached' });
      await one.getByLabel('Filter all panels (KQL)').fill('');
      await one.keyboard.press('Enter');
      await banner(one).waitFor({ state: 'detached' });
      await status(one, 500).waitFor();
    });

    test('by signing in another user', async ({ windows }) => {
      const [one, other] = await tabs(windows, ANN);
      await other.goto(`${firn.url}/app/indices`);
      await other.getByRole('button', { name: 'ann' }).click();
      await other.getByRole('menuitem', { name: 'Sign out' }).click();
      await signIn(other, BOB);
      await askAgain(one);
      await one.getByRole('button', { name: 'bob' }).waitFor();
      await status(one, 200).waitFor();
    });
  });

  test('a key for a shipper is write-only', async ({ windows }) => {
    const page = await windows.open(firn, '/start?stream=web-new', { as: OPERATOR });
    await page.getByRole('textbox', { name: 'Tenant', exact: true }).click();
    await page.getByRole('option', { name: 'acme', exact: true }).click();
    await page.getByRole('button', { name: 'Create write-only API key' }).click();
    await page.getByText('The key is in the examples below.').waitFor();
    const block = (await page.getByLabel('curl block', { exact: true }).textContent()) ?? '';
    const key = /ApiKey ([^']+)'/.exec(block)?.[1] ?? '';
    expect(key).not.toBe('YOUR_API_KEY');
    const headers = { authorization: `ApiKey ${key}`, 'content-type': 'application/json' };
    const written = await fetch(`${firn.url}/web-new/_doc`, { method: 'POST', headers, body: JSON.stringify({ '@timestamp': new Date().toISOString(), message: 'hello' }) });
    expect(written.status).toBe(201);
    expect((await fetch(`${firn.url}/web-new/_search`, { headers })).status).toBe(403);
    await page.getByText('1 event is in web-new.').waitFor();
  });

  test('traffic and audit log are shown if they are recorded', async ({ windows }) => {
    const page = await windows.open(firn, '/queries', { as: OPERATOR });
    await page.getByText('Median', { exact: true }).first().waitFor({ timeout: 20_000 });
    await look(page, 'queries');
    await page.getByRole('tab', { name: /audit/i }).click();
    await page.getByRole('region', { name: 'audit log' }).waitFor({ timeout: 20_000 });
    await look(page, 'queries-audit');
  });
});
