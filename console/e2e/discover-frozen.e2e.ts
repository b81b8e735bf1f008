import type { Page } from 'playwright-core';
import { afterEach, beforeEach, describe } from 'vitest';
import { Firn, OPERATOR } from './support/firn';
import { look } from './support/look';
import { expect, test } from './support/test';
import { WEB_TEMPLATE, webEvents } from './support/web-events';

/** Fewer events fit into so few pages that reading some reads all of them. */
const EVENTS = 30_000;
const STRANGER = { username: 'stranger', password: 'another user here' };
const ADDRESS = '/discover?i=frozen&t=now-25h,now&h=url.path';

const totalIs = (page: Page, count: number) => page.locator(`[data-total="${count}"]`).waitFor();
const costOf = (page: Page, name: string) => page.getByRole('status').filter({ hasText: `${name}: part of this data is frozen` });
const counted = (page: Page) => page.getByRole('list', { name: 'Fields' }).getByRole('button', { name: /values in/ });

describe('Discover of frozen events', () => {
  let firn: Firn;

  // One server per test: data that one test has read costs nothing in the next one.
  beforeEach(async () => {
    // Ask before any read from the repository.
    const settings = { 'discover.frozen.ask_over': '0b', 'xpack.searchable.snapshot.shared_cache.size': '0', 'indices.requests.cache.size': '0' };
    firn = await Firn.start({ security: true, settings });
    await firn.ask('PUT', '/shelf', WEB_TEMPLATE.template);
    await firn.index('shelf', webEvents(EVENTS));
    await firn.ask('PUT', '/_snapshot/archive', { type: 'fs', settings: { location: 'archive' } });
    await firn.ask('PUT', '/_snapshot/archive/first?wait_for_completion=true', { indices: 'shelf', include_global_state: false });
    await firn.ask('POST', '/_snapshot/archive/first/_mount?wait_for_completion=true&storage=shared_cache', { index: 'shelf', renamed_index: 'frozen' });
    // Data on disk would cost nothing.
    await firn.ask('DELETE', '/shelf');
    await firn.addTenant('acme', STRANGER);
  });

  afterEach(() => firn.stop());

  test('shows the cost of counting, and counts on request', async ({ windows }) => {
    const asked: { frozen: string; stages: { stage: string }[] }[] = [];
    const page = await windows.open(firn, '/tasks', { as: OPERATOR });
    page.on('request', (request) => request.url().endsWith('/_firn/discover') && asked.push(request.postDataJSON() as (typeof asked)[number]));
    await page.goto(`${firn.url}/app${ADDRESS}`);
    // The events are shown at once, the rest is not.
    await totalIs(page, EVENTS);
    await page.getByRole('row').nth(5).waitFor();
    const histogram = costOf(page, 'Histogram');
    expect(await histogram.innerText()).toMatch(/about [\d.]+ \w+, [\d,]+ requests and [\d.,]+ [KMG]?i?B/);
    await costOf(page, 'Field counts').waitFor();
    expect(await page.getByRole('slider').count()).toBe(0);
    expect(await counted(page).count()).toBe(0);
    expect(asked.map(({ frozen, stages }) => [frozen, stages.map(({ stage }) => stage)])).toEqual([['ask', ['sample', 'histogram', 'cardinality']]]);
    await look(page, 'discover-frozen');

    await histogram.getByRole('button', { name: 'Run anyway' }).click();
    await page.getByRole('slider', { name: /Events over time: 30,000 in/ }).waitFor();
    expect(asked.slice(1).map(({ frozen, stages }) => [frozen, stages.map(({ stage }) => stage)])).toEqual([['run', ['histogram']]]);
    await costOf(page, 'Field counts').getByRole('button', { name: 'Run anyway' }).click();
    await counted(page).nth(3).waitFor();
    expect(await page.getByText('part of this data is frozen').count()).toBe(0);
  });

  test('shows the cost of the top values of a field', async ({ windows }) => {
    const page = await windows.open(firn, ADDRESS, { as: OPERATOR });
    await totalIs(page, EVENTS);
    await costOf(page, 'Field counts').waitFor();
    await page.getByLabel('Find a field').fill('user_agent.name');
    await page.getByRole('list', { name: 'Fields' }).getByRole('button').filter({ hasText: 'user_agent.name' }).click();
    const values = page.getByRole('dialog');
    const cost = values.getByRole('status').filter({ hasText: 'Top values: part of this data is frozen' });
    await cost.getByRole('button', { name: 'Run anyway' }).click();
    await values.getByRole('list', { name: 'Top values of user_agent.name' }).getByText('zgrab/0.x').waitFor();
  });

  test('counts in the background, and its URL leads back to the results', async ({ windows }) => {
    const page = await windows.open(firn, ADDRESS, { as: OPERATOR });
    await totalIs(page, EVENTS);
    await costOf(page, 'Histogram').getByRole('button', { name: 'Run in background' }).click();
    await page.getByText('This search runs in the background').waitFor();
    const address = new URL(page.url());
    expect(address.searchParams.get('id')).toMatch(/.{16,}/);
    await page.close();

    // The same user in another browser: the search does not run again.
    const other = await windows.open(firn, '/tasks', { as: OPERATOR });
    const posts: string[] = [];
    other.on('request', (request) => request.method() === 'POST' && request.url().endsWith('/_firn/discover') && posts.push(request.url()));
    await other.goto(address.href);
    await other.getByText('This search runs in the background').waitFor();
    await totalIs(other, EVENTS);
    await other.getByRole('slider', { name: /Events over time: 30,000 in/ }).waitFor();
    await counted(other).nth(3).waitFor();
    expect(posts).toEqual([]);
    await look(other, 'discover-background');
    await other.getByRole('button', { name: 'Run again' }).click();
    await other.waitForURL((url) => !url.searchParams.has('id'));
    await expect.poll(() => posts.length).toBe(1);
    await totalIs(other, EVENTS);
  });

  test('hides a background search from other users', async ({ windows }) => {
    const page = await windows.open(firn, ADDRESS, { as: OPERATOR });
    await totalIs(page, EVENTS);
    await costOf(page, 'Histogram').getByRole('button', { name: 'Run in background' }).click();
    await page.getByText('This search runs in the background').waitFor();
    const stranger = await windows.open(firn, '/discover', { as: STRANGER });
    await stranger.goto(page.url());
    await stranger.getByRole('alert').filter({ hasText: 'it has expired or belongs to another user' }).waitFor();
    expect(await stranger.locator('[data-total]').count()).toBe(0);
    expect(await stranger.getByRole('slider').count()).toBe(0);
  });
});
