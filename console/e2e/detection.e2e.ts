import { afterAll, beforeAll, describe, vi } from 'vitest';
import { Firn } from './support/firn';
import { look } from './support/look';
import { expect, test } from './support/test';

/** Rules over several events and maintenance windows, from their forms to the alerts. */
describe('detection', () => {
  let firn: Firn;

  beforeAll(async () => {
    firn = await Firn.start();
    await firn.ask('PUT', '/_firn/pipelines/hosts', { source: { type: 'http' }, index: 'logs-hosts' });
  });

  afterAll(() => firn.stop());

  test('a sequence is created by keyboard, and its alert leads to the event of each step', async ({ windows }) => {
    const page = await windows.open(firn, '/rules/new/query?q=event.outcome%3A+success');
    await page.getByLabel('Name', { exact: false }).first().fill('Logon after a failure');
    await page.getByRole('textbox', { name: 'Raise an alert for' }).click();
    await page.getByRole('option', { name: /^Sequence/ }).click();
    // The query of the URL is the first step, and becomes the second one.
    await page.getByRole('textbox', { name: 'Query of step 2', exact: true }).fill('event.outcome: failure and (');
    await page.getByRole('textbox', { name: 'Name of step 2', exact: true }).fill('failure');
    await page.getByRole('status').filter({ hasText: 'step [failure]' }).waitFor();
    await page.getByRole('textbox', { name: 'Query of step 2', exact: true }).fill('event.outcome: failure');
    await page.getByText('The definition is valid.').waitFor();
    await page.getByRole('button', { name: 'Move step 2 up' }).focus();
    await page.keyboard.press('Enter');
    expect(await page.getByRole('textbox', { name: 'Query of step 1', exact: true }).inputValue()).toBe('event.outcome: failure');
    expect(await page.evaluate(() => document.activeElement?.getAttribute('aria-label'))).toBe('Move step 1 up');
    await page.getByRole('textbox', { name: 'Name of step 2', exact: true }).fill('success');
    await page.getByRole('textbox', { name: /^Group by/ }).fill('user.name');
    await page.keyboard.press('Enter');
    await page.getByRole('status').filter({ hasText: 'The definition is valid.' }).waitFor();
    await look(page, 'rule-sequence');
    await page.getByRole('button', { name: 'Create rule' }).click();
    await page.getByRole('heading', { level: 1, name: 'Logon after a failure' }).waitFor();
    expect(await page.title()).toContain('Logon after a failure · firn');
    const stored = await firn.ask<Record<string, unknown>>('GET', '/_firn/rules/logon-after-a-failure');
    expect(stored['logon-after-a-failure']).toEqual({
      type: 'sequence',
      name: 'Logon after a failure',
      within: '10m',
      group_by: ['user.name'],
      steps: [
        { name: 'failure', query: 'event.outcome: failure' },
        { name: 'success', query: 'event.outcome: success' },
      ],
    });
    await evaluated(firn, 1);
    const now = Date.now();
    const logon = (agoMs: number, outcome: string, user: string) => ({ '@timestamp': new Date(now - agoMs).toISOString(), event: { outcome }, user: { name: user } });
    await send(firn, [logon(3000, 'failure', 'ann'), logon(3000, 'failure', 'bob'), logon(500, 'success', 'ann')]);
    await alerts(firn, 1);
    await page.goto(`${firn.url}/app/alerts`);
    await page.getByRole('button', { name: 'Logon after a failure' }).click();
    const steps = page.getByRole('dialog', { name: 'Alert' }).getByRole('table', { name: 'Steps' });
    await steps.getByText('2.5 s').waitFor();
    await look(page, 'alert-sequence');
    await firn.ask('POST', '/logs-hosts/_refresh');
    await steps.getByRole('link', { name: 'Event of failure in Discover' }).click();
    // Bob's failure of the same ms is not of this alert.
    await page.locator('[data-total="1"]').waitFor();
    await page.goto(`${firn.url}/app/pipelines/hosts`);
    await page.getByRole('list', { name: 'Rules of the pipeline' }).getByRole('link', { name: 'Logon after a failure' }).waitFor();
    await page.goto(`${firn.url}/app/rules`);
    await page.getByRole('img', { name: /^Alerts of Logon after a failure per day, today last: (0, ){6}1$/ }).waitFor();
    await page.getByRole('cell', { name: 'hosts', exact: true }).waitFor();
    await look(page, 'rules-sequence');
    await firn.ask('DELETE', '/_firn/rules/logon-after-a-failure');
  });

  test('a rate of change is refused while it is typed, and created', async ({ windows }) => {
    const page = await windows.open(firn, '/rules/new/query?q=*');
    await page.getByLabel('Name', { exact: false }).first().fill('Quiet firewall');
    await page.getByRole('textbox', { name: 'Raise an alert for' }).click();
    await page.getByRole('option', { name: /^Rate of change/ }).click();
    await page.getByRole('textbox', { name: /^Drop/ }).fill('80');
    await page.getByText('The definition is valid.').waitFor();
    await page.getByRole('textbox', { name: /^Query/ }).first().fill('@timestamp > 2026-01-01');
    await page.getByRole('status').filter({ hasText: 'numbers only' }).waitFor();
    await look(page, 'rule-rate');
    await page.getByRole('textbox', { name: /^Query/ }).first().fill('*');
    await page.getByRole('button', { name: 'Test rule' }).click();
    await page.getByText(/matching events?$/).waitFor();
    await page.getByRole('button', { name: 'Create rule' }).click();
    await page.getByRole('heading', { level: 1, name: 'Quiet firewall' }).waitFor();
    const stored = await firn.ask<Record<string, unknown>>('GET', '/_firn/rules/quiet-firewall');
    expect(stored['quiet-firewall']).toEqual({ type: 'rate_of_change', name: 'Quiet firewall', query: '*', window: '5m', change: { drop_percent: 80 } });
    await firn.ask('DELETE', '/_firn/rules/quiet-firewall');
  });

  test('an alert in a maintenance window is marked, and the window ends now, once and for today', async ({ windows }) => {
    const page = await windows.open(firn, '/rules');
    await page.getByRole('tab', { name: 'Maintenance windows' }).click();
    await page.getByText('No maintenance windows').waitFor();
    await look(page, 'maintenance-empty');
    await page.getByRole('link', { name: 'Create maintenance window' }).click();
    await page.getByLabel(/^Title/).fill('Patches');
    // The zone of the browser of the tests is Berlin.
    const berlin = (ms: number) => new Date(ms).toLocaleString('sv-SE', { timeZone: 'Europe/Berlin' }).replace(' ', 'T').slice(0, 16);
    await page.getByLabel(/^Start/).fill(berlin(Date.now() - 120_000));
    await page.getByRole('textbox', { name: 'Repeats' }).click();
    await page.getByRole('option', { name: 'Every day' }).click();
    await look(page, 'maintenance-new');
    await page.getByRole('button', { name: 'Create maintenance window' }).click();
    await page.getByText('running', { exact: true }).waitFor();
    await look(page, 'maintenance');

    await firn.ask('PUT', '/_firn/rules/root', { type: 'query', name: 'Logon as root', query: 'user.name: root' });
    await evaluated(firn, 1);
    const before = await count(firn);
    // A change of a window takes effect within a second.
    await new Promise((done) => setTimeout(done, 1500));
    await send(firn, [{ '@timestamp': new Date().toISOString(), user: { name: 'root' } }]);
    await alerts(firn, before + 1);
    await page.getByRole('link', { name: 'Alerts in Patches' }).click();
    await page.getByRole('row').filter({ hasText: 'maintenance' }).getByRole('button', { name: 'Logon as root' }).click();
    await page.getByText('Not delivered: the alert was raised in a maintenance window.').waitFor();
    await look(page, 'alert-maintenance');
    await page.getByRole('link', { name: 'patches' }).click();
    await page.getByRole('heading', { level: 1, name: 'Patches' }).waitFor();

    await page.goto(`${firn.url}/app/rules/maintenance/windows`);
    await page.getByRole('button', { name: 'End now: Patches' }).click();
    await page.getByText(/^It starts again on/).waitFor();
    await page.getByRole('button', { name: 'End now', exact: true }).click();
    await page.getByText('upcoming', { exact: true }).waitFor();
    const stored = await firn.ask<Record<string, { start: string; status: { next_start: string } }>>('GET', '/_firn/maintenance_windows/patches');
    const next = Date.parse(stored['patches']?.status.next_start ?? '') - Date.now();
    // Tomorrow, at the same time.
    expect(next).toBeGreaterThan(22 * 3_600_000);
    expect(next).toBeLessThan(26 * 3_600_000);
    await page.getByRole('button', { name: 'Delete Patches' }).click();
    await page.getByRole('button', { name: 'Delete maintenance window' }).click();
    await page.getByText('No maintenance windows').waitFor();
  });
});

/** Waits until the pipeline runs with this number of rules. */
const evaluated = (firn: Firn, rules: number) =>
  vi.waitFor(
    async () => {
      const stats = await firn.ask<{ rules?: { evaluated: number } }>('GET', '/_firn/pipelines/hosts/stats');
      if (stats.rules?.evaluated !== rules) throw new Error(`the pipeline does not evaluate ${rules} rules: ${JSON.stringify(stats)}`);
    },
    { timeout: 30_000, interval: 100 },
  );

/** Sends events, which the pipeline refuses for a moment after its rules over several events have changed. */
const send = (firn: Firn, events: object[]) =>
  vi.waitFor(() => firn.ask('POST', '/_firn/pipelines/hosts/_events', events.map((event) => `${JSON.stringify(event)}\n`).join('')), { timeout: 30_000, interval: 200 });

async function count(firn: Firn): Promise<number> {
  await firn.ask('POST', '/.alerts-*/_refresh?expand_wildcards=all');
  return (await firn.ask<{ count: number }>('GET', '/.alerts-*/_count?expand_wildcards=all')).count;
}

/** Waits until there are this many alerts. */
const alerts = (firn: Firn, expected: number) =>
  vi.waitFor(
    async () => {
      const found = await count(firn);
      if (found !== expected) throw new Error(`${found} alerts, not ${expected}`);
    },
    { timeout: 30_000, interval: 200 },
  );
