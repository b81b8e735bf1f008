// @vitest-environment jsdom
import { MantineProvider } from '@mantine/core';
import { QueryClient, QueryClientProvider } from '@tanstack/react-query';
import { cleanup, fireEvent, render, screen, within } from '@testing-library/react';
import { MemoryRouter } from 'react-router';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { SessionContext } from '../../app/session-context';
import { makeFormat } from '../../lib/format';
import Alerts from '.';

vi.mock('../../components/TimeChart', () => ({ TimeChart: ({ label }: { label: string }) => <p>{label}</p> }));

const ALERT = {
  _index: '.ds-.alerts-acme-000001',
  _id: 'a1',
  _source: {
    '@timestamp': '2026-11-29T10:00:00Z',
    tenant: 'acme',
    user: { name: 'root' },
    rule: { id: 'root-logon', name: 'Logon as root', description: 'Root logs on', reference: 'javascript:alert(1)' },
    threat: { framework: 'MITRE ATT&CK', technique: { id: ['T1078'] }, tactic: { name: ['persistence'] } },
    firn: {
      alert: {
        status: 'open',
        severity: 'high',
        risk_score: 73,
        rule_version: '0123456789abcdef',
        group_by: { 'host.name': ['web-1'] },
        count: 3,
        event: { index: 'web', id: 'e1', time: '2026-11-29T09:59:59Z', pipeline: 'web' },
        changed: { at: '2026-11-29T10:01:00Z', by: 'ann', reason: 'Known host' },
        failed: ['mail'],
        deliveries: [{ channel: 'mail', at: '2026-11-29T10:00:05Z', outcome: 'failed', attempts: 4, reason: 'connection refused' }],
      },
    },
  },
};

const values = (counts: Record<string, number>) => ({ buckets: Object.entries(counts).map(([key, count]) => ({ key, doc_count: count })) });
const found = (total: number, shards = { total: 1, successful: 1, skipped: 0, failed: 0 }) => ({
  took: 1,
  timed_out: false,
  _shards: shards,
  hits: { total: { value: total, relation: 'eq' }, hits: total > 0 ? [ALERT] : [] },
  aggregations: {
    shown: { doc_count: total, over_time: { buckets: [] } },
    by_status: { doc_count: total, values: values({ open: total }) },
    by_severity: { doc_count: total, values: values({ high: total }) },
  },
});

const sent: { path: string; body: unknown }[] = [];

/** Responses by the start of the path. */
let answers: [string, unknown][];

beforeEach(() => {
  sent.length = 0;
  vi.stubGlobal('matchMedia', () => ({ matches: false, addEventListener: () => undefined, removeEventListener: () => undefined }));
  vi.stubGlobal('ResizeObserver', class {
    observe() {}
    unobserve() {}
    disconnect() {}
  });
  // The table renders the rows that its box has space for.
  vi.spyOn(Element.prototype, 'clientHeight', 'get').mockReturnValue(600);
  vi.spyOn(Element.prototype, 'clientWidth', 'get').mockReturnValue(1000);
  vi.stubGlobal('fetch', (path: string, init: RequestInit) => {
    sent.push({ path, body: init.body === undefined ? null : JSON.parse(init.body as string) });
    const answer = answers.find(([start]) => path.startsWith(start))?.[1];
    return Promise.resolve(answer === undefined ? new Response('not found', { status: 404 }) : Response.json(answer));
  });
});

afterEach(() => {
  cleanup();
  vi.unstubAllGlobals();
  vi.restoreAllMocks();
});

function open(path: string, operator = true) {
  const session = { security: true, user: { username: 'ann', roles: [] }, csrf: null, operator, tenant: operator ? null : 'acme', view_as: null };
  const none = () => Promise.resolve();
  render(
    <MantineProvider env="test">
      <QueryClientProvider client={new QueryClient({ defaultOptions: { queries: { retry: false } } })}>
        <SessionContext value={{ session, signOut: none, viewAs: none }}>
          <MemoryRouter initialEntries={[path]}>
            <Alerts />
          </MemoryRouter>
        </SessionContext>
      </QueryClientProvider>
    </MantineProvider>,
  );
}

it('acknowledges a selected alert with a reason', async () => {
  answers = [['/.alerts-*/_search', found(1)], ['/_firn/alerts/_status', { updated: 1, unchanged: 0, failures: [] }]];
  open('/alerts');
  expect(await screen.findByText('Alerts over time by severity')).toBeTruthy();
  expect(await screen.findByText('host.name: web-1')).toBeTruthy();
  expect(screen.getByText('acme')).toBeTruthy();
  fireEvent.click(screen.getByRole('checkbox', { name: /^Select Logon as root/ }));
  fireEvent.click(screen.getByRole('button', { name: 'Acknowledge' }));
  const dialog = await screen.findByRole('dialog', { name: 'Acknowledge 1 alert' });
  fireEvent.change(within(dialog).getByLabelText('Reason'), { target: { value: ' Known host ' } });
  fireEvent.click(within(dialog).getByRole('button', { name: 'Acknowledge 1 alert' }));
  await vi.waitFor(() => expect(sent.find(({ path }) => path === '/_firn/alerts/_status')?.body).toEqual({ alerts: [{ index: ALERT._index, id: 'a1' }], status: 'acknowledged', reason: 'Known host' }));
});

it('offers all matching alerts once all shown are selected, up to the newest one', async () => {
  answers = [['/.alerts-*/_search', found(500)], ['/_firn/alerts/_status', { updated: 499, unchanged: 0, failures: [{ index: 'i', id: 'a7', reason: 'version conflict' }] }]];
  open('/alerts?severity=high');
  fireEvent.click(await screen.findByRole('checkbox', { name: 'Select all 1 shown' }));
  fireEvent.click(screen.getByRole('button', { name: 'Select all 500 that match' }));
  fireEvent.click(screen.getByRole('button', { name: 'Close' }));
  const dialog = await screen.findByRole('dialog', { name: 'Close 500 alerts' });
  fireEvent.click(within(dialog).getByRole('button', { name: 'Close 500 alerts' }));
  expect(await screen.findByText('1 of 500 alerts not changed')).toBeTruthy();
  expect(screen.getByText(/version conflict/)).toBeTruthy();
  const body = sent.find(({ path }) => path === '/_firn/alerts/_status')?.body as { query: { bool: { filter: object[] } } };
  expect(body).toMatchObject({ status: 'closed' });
  expect(body.query.bool.filter).toContainEqual({ range: { '@timestamp': { lte: '2026-11-29T10:00:00Z' } } });
  expect(body.query.bool.filter).toContainEqual({ terms: { 'firn.alert.severity': ['high'] } });
});

it('shows one alert with its rule, threat, state and deliveries', async () => {
  answers = [['/.alerts-*/_search', found(1)], ['/.ds-.alerts-acme-000001/_doc/a1', ALERT], ['/_firn/alerts/_resend', { updated: 1, unchanged: 0, failures: [] }]];
  open(`/alerts?index=${ALERT._index}&id=a1`);
  expect(await screen.findByText('Root logs on')).toBeTruthy();
  for (const text of ['0123456789abcdef', 'T1078', 'persistence', 'Known host', 'connection refused', 'javascript:alert(1)']) expect(screen.getByText(text)).toBeTruthy();
  expect(screen.queryByRole('link', { name: 'javascript:alert(1)' })).toBeNull();
  expect(screen.getByRole('link', { name: 'Event in Discover' }).getAttribute('href')).toBe('/discover/event?index=web&id=e1');
  expect(screen.getByRole('link', { name: 'root-logon' }).getAttribute('href')).toBe('/rules/root-logon');
  fireEvent.click(screen.getByRole('button', { name: 'Deliver again' }));
  expect(await screen.findByText('The alert is queued for delivery.')).toBeTruthy();
});

const EVENT = { ...ALERT._source, firn: undefined };
const alertOf = (state: object, rule = { id: 'guess', name: 'Guessed password' }) => ({ ...ALERT, _source: { ...EVENT, rule, firn: { alert: { status: 'open', severity: 'high', count: 3, ...state } } } });
const WINDOW = { start: '2026-11-29T09:00:00Z', end: '2026-11-29T09:00:05.250Z', events: 3 };

it('shows the steps of a sequence with links to their events, and the alerts of the rules of a correlation', async () => {
  const steps = [
    { name: 'failure', time: '2026-11-29T09:00:00.000Z' },
    { name: 'success', time: '2026-11-29T09:00:05.250Z' },
  ];
  const part = { ...alertOf({ event: { time: steps[0]?.time } }, { id: 'guess/failure', name: 'Failed logon' }), _id: 'p1' };
  const parts = { ...found(1), hits: { total: { value: 25, relation: 'eq' }, hits: [part] } };
  answers = [['/.ds-.alerts-acme-000001/_doc/a1', alertOf({ group_by: { 'user.name': ['root'] }, window: { ...WINDOW, steps } })], ['/.alerts-*/_search', parts]];
  open(`/alerts?index=${ALERT._index}&id=a1`);
  const timeOf = (at: number) => makeFormat('UTC').time(Date.parse(steps[at]?.time ?? ''));
  const table = await screen.findByRole('table', { name: 'Steps' });
  const rows = within(table).getAllByRole('row').slice(1);
  expect(rows.map((row) => within(row).getAllByRole('cell').map(({ textContent }) => textContent))).toEqual([
    ['1', 'failure', timeOf(0), '', 'Discover'],
    ['2', 'success', timeOf(1), '5.3 s', 'Discover'],
  ]);
  const href = within(table).getByRole('link', { name: 'Event of success in Discover' }).getAttribute('href') ?? '';
  expect(decodeURIComponent(new URLSearchParams(href.split('?')[1]).get('t') ?? '')).toBe('2026-11-29T09:00:05.250Z,2026-11-29T09:00:05.250Z');
  expect((await screen.findByRole('link', { name: 'Failed logon' })).getAttribute('href')).toBe(`/alerts?status=all&index=${ALERT._index}&id=p1`);
  expect(screen.getByText('The first 1 of 25')).toBeTruthy();
  const asked = sent.filter(({ body }) => JSON.stringify(body).includes('"prefix"'));
  expect(asked.map(({ body }) => body)).toMatchObject([{ query: { bool: { must: [{ term: { tenant: 'acme' } }], filter: [{ prefix: { 'rule.id': 'guess/' } }, { range: { 'firn.alert.event.time': { gte: WINDOW.start, lte: WINDOW.end } } }] } } }]);
  // The events of the window have the values of the group.
  expect(screen.getByRole('link', { name: 'Events in Discover' }).getAttribute('href')).toContain('user.name');
});

it.each([
  [{ value: 900, baseline: 225 }, '225 events per window', '300.0% above the baseline'],
  [{ value: 0, baseline: 50.5 }, '50.5 events per window', '100.0% below the baseline'],
  [{ value: 30, baseline: 0 }, '0 events per window', 'no events before'],
])('shows the baseline of a rate of change: %j', async (window, baseline, change) => {
  answers = [['/.ds-.alerts-acme-000001/_doc/a1', alertOf({ window: { ...WINDOW, ...window } })], ['/.alerts-*/_search', found(0)]];
  open(`/alerts?index=${ALERT._index}&id=a1`);
  expect((await screen.findByText(baseline)).textContent).toBe(baseline);
  expect(screen.getByText(change)).toBeTruthy();
  expect(screen.queryByRole('table', { name: 'Steps' })).toBeNull();
});

it('marks an alert of a maintenance window, which an operator can deliver nevertheless', async () => {
  const suppressed = alertOf({ maintenance_windows: ['patch-day'], pending: [], event: ALERT._source.firn.alert.event });
  answers = [
    ['/.ds-.alerts-acme-000001/_doc/a1', suppressed],
    ['/.alerts-*/_search', { ...found(1), hits: { total: { value: 1 }, hits: [suppressed] } }],
    ['/_firn/channels/_stats', {}],
    ['/_firn/channels', { mail: { type: 'email' } }],
    ['/_firn/alerts/_resend', { updated: 1, unchanged: 0, failures: [] }],
  ];
  open(`/alerts?index=${ALERT._index}&id=a1`);
  // In the table and in the drawer.
  await vi.waitFor(() => expect(screen.getAllByText('maintenance')).toHaveLength(2));
  expect(screen.getByRole('link', { name: 'patch-day' }).getAttribute('href')).toBe('/rules/maintenance/window/patch-day');
  expect(screen.getByText('Not delivered: the alert was raised in a maintenance window.')).toBeTruthy();
  expect(screen.queryByRole('button', { name: 'Deliver again' })).toBeNull();
  fireEvent.click(screen.getByRole('button', { name: 'Deliver over…' }));
  const dialog = await screen.findByRole('dialog', { name: 'Deliver alert' });
  expect(within(dialog).getByRole<HTMLButtonElement>('button', { name: 'Deliver' }).disabled).toBe(true);
  fireEvent.click(within(dialog).getByRole('textbox', { name: 'Channels' }));
  fireEvent.click(await screen.findByRole('option', { name: 'mail' }));
  fireEvent.click(within(dialog).getByRole('button', { name: 'Deliver' }));
  expect(await screen.findByText('The alert is queued for delivery.')).toBeTruthy();
  expect(sent.find(({ path }) => path === '/_firn/alerts/_resend')?.body).toEqual({ alerts: [{ index: ALERT._index, id: 'a1' }], channels: ['mail'] });
});

it('does not show tenants what belongs to operators', async () => {
  answers = [['/.alerts-*/_search', found(1)], ['/.ds-.alerts-acme-000001/_doc/a1', ALERT]];
  open(`/alerts?index=${ALERT._index}&id=a1`, false);
  expect(await screen.findByText('Root logs on')).toBeTruthy();
  expect(screen.queryByRole('columnheader', { name: 'Tenant' })).toBeNull();
  expect(screen.queryByRole('link', { name: 'root-logon' })).toBeNull();
  expect(screen.queryByRole('button', { name: 'Deliver again' })).toBeNull();
});

it('says that a partial response may lack alerts', async () => {
  answers = [['/.alerts-*/_search', found(1, { total: 4, successful: 3, skipped: 0, failed: 1 })]];
  open('/alerts');
  expect(await screen.findByText('Some alerts may be missing: 1 of 4 shards failed')).toBeTruthy();
});

it('says how to get alerts if there are none', async () => {
  answers = [['/.alerts-*/_search', { ...found(0), aggregations: undefined }]];
  open('/alerts');
  expect((await screen.findByRole('link', { name: 'Create or import rules' })).getAttribute('href')).toBe('/rules');
  cleanup();
  open('/alerts', false);
  expect(await screen.findByText(/Alerts appear here when an event matches/)).toBeTruthy();
  expect(screen.queryByRole('link', { name: 'Create or import rules' })).toBeNull();
});

it('shows why the search failed', async () => {
  answers = [];
  open('/alerts');
  expect(await screen.findByText('Alerts: request failed')).toBeTruthy();
  expect(screen.getByText('not found')).toBeTruthy();
});
