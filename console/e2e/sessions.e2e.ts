import type { Page } from 'playwright-core';
import { afterAll, beforeAll, describe } from 'vitest';
import { type Account, Firn, OPERATOR } from './support/firn';
import { look } from './support/look';
import { expect, signIn, test, type Windows } from './support/test';
import { WEB_TEMPLATE, webEvents } from './support/web-events';

const ANN: Account = { username: 'ann', password: 'ann of acme' };
const CARL: Account = { username: 'carl', password: 'carl of acme' };
const BOB: Account = { username: 'bob', password: 'bob of globex' };

describe('who sees what', () => {
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
    // What is to be seen after it is there already.
    const scripts = () => page.evaluate(() => performance.getEntriesByType('resource').map(({ name }) => name));
    await expect.poll(scripts).toContainEqual(expect.stringMatching(/\/assets\/dashboard-[^/]+\.css$/));
    await page.getByLabel('Username').fill(ANN.username);
    await page.getByLabel(/^Password/).fill('not hers');
    await page.getByRole('button', { name: 'Sign in', exact: true }).click();
    await page.getByRole('alert').waitFor();
    expect(await page.getByRole('alert').innerText()).toMatch(/ann/);
    await look(page, 'sign-in-refused');

    await signIn(page, ANN);
    // She arrives where the link led.
    await status(page, 300).waitFor();
    const cookies = await page.context().cookies();
    expect(cookies.map(({ httpOnly, sameSite }) => [httpOnly, sameSite])).toEqual([[true, 'Strict']]);
    expect(await page.evaluate(() => document.cookie)).toBe('');

    await page.getByRole('button', { name: 'ann' }).click();
    await page.getByRole('menuitem', { name: 'Sign out' }).click();
    await page.getByRole('heading', { name: 'Sign in to firn' }).waitFor();
    // The cookie of before is worth nothing any more.
    await page.context().addCookies(cookies);
    await page.goto(`${firn.url}/app/dashboard`);
    await page.getByRole('heading', { name: 'Sign in to firn' }).waitFor();
  });

  test('a session that ends in the middle of a search goes on after another sign-in', async ({ windows }) => {
    const page = await windows.open(firn, `${DASHBOARD}&q=${encodeURIComponent('http.response.status_code: 404')}`, { as: CARL });
    await status(page, 60).waitFor();
    // Another password ends the sessions that the old one opened.
    const renewed = { ...CARL, password: 'another of carl' };
    await firn.ask('PUT', `/_security/user/${CARL.username}/_password`, { password: renewed.password });
    await page.getByLabel('Query of all panels (KQL)').fill('http.response.status_code < 400');
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

  test('a link opens for whoever may see it, and for another tenant shows nothing of it', async ({ windows }) => {
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

    // Pages of operators have no door for him, and no window either.
    expect(await bob.getByRole('navigation', { name: 'Pages' }).getByRole('link').allInnerTexts()).toEqual(['Discover', 'Dashboard', 'Indices', 'Send events']);
    for (const path of ['/tenants', '/tenants/initech', '/tasks', '/snapshots']) {
      await bob.goto(`${firn.url}/app${path}`);
      await bob.getByRole('alert').first().waitFor();
      expect(await bob.locator('main').innerText(), path).not.toMatch(/acme|300/i);
    }
    // The record of requests does not exist for him.
    await bob.goto(`${firn.url}/app/queries`);
    await bob.getByText('This page is for operators').waitFor();
  });

  test('an operator takes a tenant’s view for a reason that the audit log keeps', async ({ windows }) => {
    const page = await windows.open(firn, '/tenants/acme', { as: OPERATOR });
    await page.getByRole('button', { name: 'See what it sees' }).click();
    const dialog = page.getByRole('dialog');
    const take = dialog.getByRole('button', { name: 'Take its view' });
    expect(await take.isDisabled()).toBe(true);
    await dialog.getByLabel('Reason').fill('ticket 4711');
    await look(page, 'view-as');
    await take.click();
    const banner = page.getByRole('status').filter({ hasText: 'You see what tenant acme sees' });
    await banner.waitFor();
    expect(await page.getByRole('link', { name: 'Tenants' }).count()).toBe(0);
    await page.goto(`${firn.url}/app${DASHBOARD}`);
    await status(page, 300).waitFor();
    await look(page, 'dashboard-as-tenant');
    await page.getByRole('button', { name: 'Back to your own view' }).click();
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
    // Each window here asked whether it was signed in, before it was; that is nobody's attempt.
    const failed = { bool: { filter: [{ term: { 'event.action': 'authentication_failed' } }, { term: { 'url.path': '/_firn/session' } }], must_not: [{ exists: { field: 'user.name' } }] } };
    expect((await firn.ask<{ count: number }>('POST', '/.firn-audit/_count', { query: failed })).count).toBe(0);
  });

  describe.each([
    ['tells the others', false],
    ['is not heard by the others, which find out with what they ask next', true],
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
      await page.getByLabel('Query of all panels (KQL)').fill('http.response.status_code > 0');
      await page.keyboard.press('Enter');
    };
    const banner = (page: Page) => page.getByRole('status').filter({ hasText: 'You see what tenant acme sees' });

    test('by taking a view and giving it back', async ({ windows }) => {
      const [one, other] = await tabs(windows, OPERATOR);
      await other.goto(`${firn.url}/app/tenants/acme`);
      await other.getByRole('button', { name: 'See what it sees' }).click();
      await other.getByRole('dialog').getByLabel('Reason').fill('ticket 4712');
      await other.getByRole('dialog').getByRole('button', { name: 'Take its view' }).click();
      await banner(other).waitFor();
      await askAgain(one);
      await banner(one).waitFor();
      await status(one, 300).waitFor();

      await other.getByRole('button', { name: 'Back to your own view' }).click();
      await banner(other).waitFor({ state: 'detached' });
      await one.getByLabel('Query of all panels (KQL)').fill('');
      await one.keyboard.press('Enter');
      await banner(one).waitFor({ state: 'detached' });
      await status(one, 500).waitFor();
    });

    test('by signing in somebody else', async ({ windows }) => {
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

  test('a key is made for a shipper, and it may send and nothing else', async ({ windows }) => {
    const page = await windows.open(firn, '/start?stream=web-new', { as: OPERATOR });
    await page.getByRole('textbox', { name: 'Whose events they are' }).click();
    await page.getByRole('option', { name: 'acme', exact: true }).click();
    await page.getByRole('button', { name: 'Make a key that may only send' }).click();
    await page.getByText('The key is in the blocks below.').waitFor();
    const block = (await page.getByLabel('curl block', { exact: true }).textContent()) ?? '';
    const key = /ApiKey ([^']+)'/.exec(block)?.[1] ?? '';
    expect(key).not.toBe('YOUR_API_KEY');
    const headers = { authorization: `ApiKey ${key}`, 'content-type': 'application/json' };
    const written = await fetch(`${firn.url}/web-new/_doc`, { method: 'POST', headers, body: JSON.stringify({ '@timestamp': new Date().toISOString(), message: 'hello' }) });
    expect(written.status).toBe(201);
    expect((await fetch(`${firn.url}/web-new/_search`, { headers })).status).toBe(403);
    await page.getByText('1 event is in web-new.').waitFor();
  });

  test('traffic and the audit log are shown where they are kept', async ({ windows }) => {
    const page = await windows.open(firn, '/queries', { as: OPERATOR });
    await page.getByText('Half took at most').waitFor({ timeout: 20_000 });
    await look(page, 'queries');
    await page.getByRole('tab', { name: /audit/i }).click();
    await page.getByRole('region', { name: 'audit log' }).waitFor({ timeout: 20_000 });
    await look(page, 'queries-audit');
  });
});
