import { readFile } from 'node:fs/promises';
import { afterAll, beforeAll, describe, vi } from 'vitest';
import { type Account, Firn, OPERATOR } from './support/firn';
import { look } from './support/look';
import { expect, test } from './support/test';

const BOB: Account = { username: 'bob', password: 'bob of the tests' };

const CLEARED = `title: Security log cleared
id: log-cleared
level: critical
logsource: {product: windows, service: security}
detection:
  selection: {EventID: 1102}
  condition: selection
`;
const CORRELATION = `title: Many logons
correlation:
  type: event_count
  rules: [no-such-rule]
  group-by: [User]
  timespan: 1h
  condition: {gte: 10}
`;

/** Export of Kibana's rules with one that is taken, one that is not, and the summary. */
const KIBANA = [
  { rule_id: 'from-kibana', type: 'query', name: 'Rule of Kibana', language: 'kuery', query: 'user.name: sync', severity: 'low', risk_score: 21, enabled: false, interval: '5m', index: ['logs-*'] },
  { rule_id: 'eql', type: 'eql', name: 'Sequence of Kibana', language: 'eql', query: 'any where true' },
  { exported_count: 2 },
]
  .map((line) => `${JSON.stringify(line)}\n`)
  .join('');

/** From a rule to its alert, in the pages Rules, Discover and Alerts. */
describe('alerts', () => {
  let firn: Firn;

  beforeAll(async () => {
    firn = await Firn.start();
    await firn.ask('PUT', '/_firn/rules/root-logon', {
      type: 'query',
      name: 'Logon as root',
      description: 'Root logs on to a host.',
      query: 'user.name: root and not event.outcome: failure',
      severity: 'high',
      tags: ['attack.t1078', 'attack.persistence'],
      group_by: ['host.name'],
      exceptions: [{ query: 'host.name: lab*' }],
    });
    await firn.ask('PUT', '/_firn/pipelines/hosts', { source: { type: 'http' }, index: 'logs-hosts' });
    await evaluated(firn, 'hosts', 1);
    await send(firn, 'hosts', [
      { '@timestamp': new Date().toISOString(), user: { name: 'root' }, host: { name: 'web-1' } },
      { '@timestamp': new Date().toISOString(), user: { name: 'root' }, host: { name: 'web-2' } },
      { '@timestamp': new Date().toISOString(), user: { name: 'root' }, host: { name: 'lab-1' } },
    ]);
    await firn.ask('POST', '/.alerts-default,logs-hosts/_refresh');
  });

  afterAll(() => firn.stop());

  test('an alert with its rule, threat and event', async ({ windows }) => {
    const page = await windows.open(firn, '/alerts');
    await page.getByText('host.name: web-1').waitFor();
    expect(await page.getByText('host.name: lab-1').count()).toBe(0);
    await page.getByText('Open (2)').waitFor();
    await look(page, 'alerts');
    await page.getByRole('row').filter({ hasText: 'web-1' }).getByRole('button', { name: 'Logon as root' }).click();
    const drawer = page.getByRole('dialog', { name: 'Alert' });
    await drawer.getByText('Root logs on to a host.').waitFor();
    await drawer.getByText('T1078').waitFor();
    await drawer.getByRole('cell', { name: 'web-1', exact: true }).waitFor();
    await look(page, 'alert');
    await drawer.getByRole('link', { name: 'Surrounding events' }).click();
    await page.locator('[data-total="3"]').waitFor();
    await page.goBack();
    await drawer.getByRole('link', { name: 'Event in Discover' }).click();
    await page.getByRole('heading', { name: 'Event' }).waitFor();
    await page.getByRole('cell', { name: 'web-1', exact: true }).waitFor();
  });

  test('filters by severity and by KQL', async ({ windows }) => {
    const page = await windows.open(firn, '/alerts');
    await page.getByText('host.name: web-2').waitFor();
    await page.getByLabel('Filter alerts (KQL)').fill('host.name: "web-2"');
    await page.keyboard.press('Enter');
    await page.getByText('Open (1)').waitFor();
    await page.getByText('host.name: web-1').waitFor({ state: 'detached' });
    await page.getByText('low (0)').click();
    await page.getByText('No matching alerts').waitFor();
    await page.reload();
    await page.getByText('No matching alerts').waitFor();
    expect(new URL(page.url()).searchParams.get('severity')).toBe('low');
  });

  test('rules with their alerts: import, disable, change, delete', async ({ windows }) => {
    const page = await windows.open(firn, '/rules');
    await page.getByRole('link', { name: 'Logon as root' }).waitFor();
    await page.getByRole('link', { name: '2', exact: true }).waitFor();
    await page.getByRole('button', { name: 'Import rules' }).click();
    await page.locator('input[type=file]').setInputFiles([
      { name: 'cleared.yml', mimeType: 'application/yaml', buffer: Buffer.from(CLEARED) },
      { name: 'correlation.yml', mimeType: 'application/yaml', buffer: Buffer.from(CORRELATION) },
    ]);
    await page.getByRole('button', { name: 'Import 2 files' }).click();
    await page.getByText('1 imported, 1 refused').waitFor();
    await look(page, 'rules-import');
    await page.getByRole('button', { name: 'Done' }).click();
    await page.getByRole('link', { name: 'Security log cleared' }).waitFor();
    await look(page, 'rules');

    await page.getByRole('switch', { name: 'Enable Security log cleared' }).press('Space');
    await expect.poll(async () => (await ruleOf(firn, 'log-cleared'))['enabled']).toBe(false);

    await page.getByRole('link', { name: 'Security log cleared' }).click();
    await page.getByLabel('Sigma rule', { exact: false }).first().fill(CLEARED.replace('critical', 'low'));
    await page.getByRole('button', { name: 'Save' }).click();
    await page.getByText('Rule saved.').waitFor();
    expect((await ruleOf(firn, 'log-cleared'))['sigma']).toContain('level: low');

    await page.getByRole('button', { name: 'Delete', exact: true }).click();
    await page.getByRole('button', { name: 'Delete rule' }).click();
    await page.getByRole('link', { name: 'Logon as root' }).waitFor();
    expect(await page.getByRole('link', { name: 'Security log cleared' }).count()).toBe(0);
  });

  test('rules of Kibana are imported, and all rules exported', async ({ windows }) => {
    const page = await windows.open(firn, '/rules');
    await page.getByRole('button', { name: 'Import rules' }).click();
    await page.locator('input[type=file]').setInputFiles([{ name: 'kibana.ndjson', mimeType: 'application/x-ndjson', buffer: Buffer.from(KIBANA) }]);
    await page.getByRole('button', { name: 'Import 1 file' }).click();
    await page.getByText('1 imported, 1 refused').waitFor();
    await page.getByText('kibana.ndjson:2').waitFor();
    await page.getByRole('region', { name: 'Notes' }).getByRole('cell', { name: 'interval', exact: true }).waitFor();
    await look(page, 'rules-import-kibana');
    await page.getByRole('button', { name: 'Done' }).click();
    await page.getByRole('link', { name: 'Rule of Kibana' }).waitFor();
    expect((await ruleOf(firn, 'from-kibana'))['enabled']).toBe(false);
    const [file] = await Promise.all([page.waitForEvent('download'), page.getByRole('button', { name: 'Export' }).click()]);
    const text = await readFile(await file.path(), 'utf8');
    expect(text).toContain('{"id":"from-kibana","definition":');
    await firn.ask('DELETE', '/_firn/rules/from-kibana');
  });

  test("a search in Discover becomes a rule, after the server's error", async ({ windows }) => {
    const page = await windows.open(firn, `/discover?i=logs-hosts&q=${encodeURIComponent('host.name: web-1 and @timestamp > 2020-01-01')}`);
    await page.getByRole('link', { name: 'Alert on this search' }).click();
    await page.getByLabel('Name', { exact: false }).first().fill('Events of web-1');
    await page.getByRole('button', { name: 'Create rule' }).click();
    await page.getByRole('alert').filter({ hasText: 'rule [events-of-web-1]' }).waitFor();
    await page.getByLabel('Query', { exact: false }).first().fill('host.name: web-1');
    await look(page, 'rule-new');
    await page.getByRole('button', { name: 'Create rule' }).click();
    await page.getByRole('heading', { level: 1, name: 'Events of web-1' }).waitFor();
    expect(await ruleOf(firn, 'events-of-web-1')).toEqual({ type: 'query', name: 'Events of web-1', query: 'host.name: web-1' });
    await firn.ask('DELETE', '/_firn/rules/events-of-web-1');
  });

  test('alerts are acknowledged with a reason', async ({ windows }) => {
    const page = await windows.open(firn, '/alerts');
    await page.getByText('host.name: web-1').waitFor();
    await page.getByRole('row').filter({ hasText: 'web-1' }).getByRole('checkbox').check();
    await page.getByRole('button', { name: 'Acknowledge', exact: true }).click();
    const dialog = page.getByRole('dialog', { name: 'Acknowledge 1 alert' });
    await dialog.getByLabel('Reason').fill('Maintenance of web-1');
    await look(page, 'alerts-acknowledge');
    await dialog.getByRole('button', { name: 'Acknowledge 1 alert' }).click();
    await page.getByText('Acknowledged (1)').waitFor();
    await page.getByText('host.name: web-1').waitFor({ state: 'detached' });
    await page.getByText('Acknowledged (1)').click();
    await page.getByRole('row').filter({ hasText: 'web-1' }).getByRole('button', { name: 'Logon as root' }).click();
    const drawer = page.getByRole('dialog', { name: 'Alert' });
    await drawer.getByText('Maintenance of web-1').waitFor();
    await drawer.getByRole('button', { name: 'Close', exact: true }).click();
    await page.getByRole('button', { name: 'Close 1 alert' }).click();
    await page.getByText('Closed (1)').waitFor();
  });

  test('a tenant sees and changes its own alerts, also those that the table does not show', async ({ windows }) => {
    const shared = await Firn.start({ security: true });
    try {
      await shared.addTenant('acme', BOB, 'tenant_admin');
      await shared.ask('PUT', '/_firn/tenants/globex', { quotas: {} });
      await shared.ask('PUT', '/_firn/rules/root-logon', { type: 'query', name: 'Logon as root', query: 'user.name: root' });
      for (const tenant of ['acme', 'globex']) {
        await shared.ask('PUT', `/_firn/pipelines/${tenant}`, { source: { type: 'http' }, index: `logs-${tenant}`, tenant });
        await evaluated(shared, tenant, 1);
        await send(shared, tenant, Array.from({ length: 450 }, (_, at) => ({ user: { name: 'root' }, host: { name: `host-${at}` } })));
      }
      await shared.ask('POST', '/.alerts-acme,.alerts-globex/_refresh');
      const page = await windows.open(shared, '/alerts', { as: BOB });
      await page.getByText('newest 200 of 450').waitFor();
      await page.getByRole('button', { name: 'Show more' }).click();
      await page.getByRole('checkbox', { name: 'Select all 400 shown' }).check();
      await page.getByRole('button', { name: 'Select all 450 that match' }).click();
      await page.getByRole('button', { name: 'Acknowledge', exact: true }).click();
      await page.getByRole('button', { name: 'Acknowledge 450 alerts' }).click();
      await page.getByText('Acknowledged (450)').waitFor();
      expect(await page.getByRole('link', { name: 'Rules' }).count()).toBe(0);
      const operator = await windows.open(shared, '/alerts', { as: OPERATOR });
      await operator.getByText('Open (450)').waitFor();
      await operator.getByText('All (900)').waitFor();
    } finally {
      await shared.stop();
    }
  });

  test('a server without rules says how to make one', async ({ windows }) => {
    const empty = await Firn.start();
    try {
      const page = await windows.open(empty, '/alerts');
      await page.getByText('No alerts').waitFor();
      await look(page, 'alerts-empty');
      await page.getByRole('link', { name: 'Create or import rules' }).click();
      await page.getByText('No rules').waitFor();
      await look(page, 'rules-empty');
    } finally {
      await empty.stop();
    }
  });
});

/** Waits until a pipeline runs with this number of rules. */
const evaluated = (firn: Firn, pipeline: string, rules: number) =>
  vi.waitFor(
    async () => {
      const stats = await firn.ask<{ rules?: { evaluated: number } }>('GET', `/_firn/pipelines/${pipeline}/stats`);
      if (stats.rules?.evaluated !== rules) throw new Error(`[${pipeline}] does not evaluate ${rules} rules: ${JSON.stringify(stats)}`);
    },
    { timeout: 30_000, interval: 100 },
  );

const send = (firn: Firn, pipeline: string, events: object[]) => firn.ask('POST', `/_firn/pipelines/${pipeline}/_events`, events.map((event) => `${JSON.stringify(event)}\n`).join(''));

const ruleOf = async (firn: Firn, id: string): Promise<Record<string, unknown>> => (await firn.ask<Record<string, Record<string, unknown>>>('GET', `/_firn/rules/${id}`))[id] ?? {};
