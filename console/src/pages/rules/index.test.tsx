// @vitest-environment jsdom
import { File } from 'node:buffer';
import { MantineProvider } from '@mantine/core';
import { QueryClient, QueryClientProvider } from '@tanstack/react-query';
import { cleanup, fireEvent, render, screen, within } from '@testing-library/react';
import { MemoryRouter, Route, Routes } from 'react-router';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { SessionContext } from '../../app/session-context';
import Rules from '.';

const sent: { method: string; path: string; body: unknown }[] = [];

/** Responses by method and path; other requests get 404. */
let answers: Record<string, () => Response>;

beforeEach(() => {
  sent.length = 0;
  vi.stubGlobal('matchMedia', () => ({ matches: false, addEventListener: () => undefined, removeEventListener: () => undefined }));
  vi.stubGlobal('ResizeObserver', class {
    observe() {}
    unobserve() {}
    disconnect() {}
  });
  vi.spyOn(Element.prototype, 'clientHeight', 'get').mockReturnValue(600);
  vi.spyOn(Element.prototype, 'clientWidth', 'get').mockReturnValue(1000);
  // jsdom scrolls nothing.
  Element.prototype.scrollIntoView = () => undefined;
  // jsdom has no fonts, which autosized text areas wait for.
  Object.defineProperty(document, 'fonts', { configurable: true, value: { addEventListener: () => undefined, removeEventListener: () => undefined } });
  vi.stubGlobal('fetch', (url: string, init: RequestInit) => {
    const path = url.split('?')[0] ?? '';
    sent.push({ method: init.method ?? '', path, body: typeof init.body === 'string' && init.body.startsWith('{') ? JSON.parse(init.body) : init.body });
    return Promise.resolve(answers[`${init.method} ${path}`]?.() ?? new Response('no such endpoint', { status: 404 }));
  });
});

afterEach(() => {
  cleanup();
  vi.unstubAllGlobals();
  vi.restoreAllMocks();
});

const ROOT = { type: 'query', name: 'Logon as root', query: 'user.name: root', severity: 'high', references: ['https://example.com'] };
const SIGMA = { type: 'sigma', sigma: 'title: Security log cleared\nlevel: critical\n', enabled: false };

function open(path: string, view_as: string | null = null) {
  const session = { security: true, user: { username: 'ann', roles: [] }, csrf: null, operator: true, tenant: null, view_as };
  const none = () => Promise.resolve();
  render(
    <MantineProvider env="test">
      <QueryClientProvider client={new QueryClient({ defaultOptions: { queries: { retry: false } } })}>
        <SessionContext value={{ session, signOut: none, viewAs: none }}>
          <MemoryRouter initialEntries={[path]}>
            <Routes>
              <Route path="/rules/*" element={<Rules />} />
              <Route path="/discover" element={<p>the events</p>} />
            </Routes>
          </MemoryRouter>
        </SessionContext>
      </QueryClientProvider>
    </MantineProvider>,
  );
}

it('lists rules with their alerts, and disables one without losing what another operator stored', async () => {
  const week = { key: 'root', doc_count: 9, week: { doc_count: 4 }, last: { value: Date.UTC(2026, 0, 1) } };
  answers = {
    'GET /_firn/rules': () => Response.json({ root: { ...ROOT, enabled: true, tags: [] }, log: { type: 'sigma', name: 'Security log cleared', severity: 'critical', enabled: false, tags: [] } }),
    'GET /_firn/rules/_stats': () =>
      Response.json({ root: { cpu: { core_percent: 7.25 }, throttled: { reason: 'budget exhausted', until: '2026-01-01T00:00:00Z', evaluated: false }, open_holes: { count: 2, since: '2026-01-01T00:00:00Z', pipelines: ['web'] } }, log: { cpu: { core_percent: 0 }, throttled: null, open_holes: { count: 0 } } }),
    'GET /_firn/rules/_export': () => new Response('{}\n'),
    'POST /.alerts-*/_search': () => Response.json({ hits: { hits: [] }, aggregations: { rules: { buckets: [week] } } }),
    'GET /_firn/rules/root': () => Response.json({ root: { ...ROOT, tags: ['new'] } }),
    'PUT /_firn/rules/root': () => Response.json({ acknowledged: true }),
    'GET /_firn/channels': () => Response.json({ mail: { type: 'email', tenant: 'acme' } }),
    'GET /_firn/channels/_stats': () => Response.json({ mail: { pending: 2, delivered: 7, failed: 1, last_error: 'connection refused', next_attempt: null } }),
    'POST /_firn/channels/mail/_test': () => Response.json({ error: { type: 'x', reason: 'no route to host' } }, { status: 502 }),
  };
  open('/rules');
  expect((await screen.findByRole('link', { name: '4' })).getAttribute('href')).toContain('rule.id');
  expect(screen.getByRole('link', { name: 'Security log cleared' }).getAttribute('href')).toBe('/rules/log');
  expect(await screen.findByText('7.25 %')).toBeTruthy();
  expect(screen.getAllByText('over budget').map(({ title }) => title)).toEqual(['budget exhausted']);
  const holes = screen.getByRole('link', { name: /^2 coverage holes: Not evaluated on events of the pipeline web since / });
  expect(holes.getAttribute('href')).toBe('/rules/root');
  // The list needs one request for all rules.
  expect(sent.filter(({ path }) => path.includes('_coverage'))).toEqual([]);
  fireEvent.click(screen.getByRole('switch', { name: 'Enable Logon as root' }));
  await vi.waitFor(() => expect(sent.find(({ method }) => method === 'PUT')?.body).toEqual({ ...ROOT, tags: ['new'], enabled: false }));
  await vi.waitFor(() => expect((screen.getByRole('switch', { name: 'Enable Logon as root' }) as HTMLInputElement).checked).toBe(false));
  const saved = vi.fn((file: Blob) => `blob:${file.size}`);
  vi.stubGlobal('URL', Object.assign(URL, { createObjectURL: saved, revokeObjectURL: () => undefined }));
  const clicked = vi.spyOn(HTMLAnchorElement.prototype, 'click').mockImplementation(() => undefined);
  fireEvent.click(screen.getByRole('button', { name: 'Export' }));
  await vi.waitFor(() => expect(saved.mock.calls[0]?.[0].size).toBe(3));
  expect(clicked).toHaveBeenCalledOnce();
  expect(screen.getByText('connection refused')).toBeTruthy();
  fireEvent.click(screen.getByRole('button', { name: 'Test mail' }));
  expect(await screen.findByText('no route to host')).toBeTruthy();
});

it('shows tenants and channels of rules in one column, and fits on a screen of 1280 pixels', async () => {
  const rule = (members: object) => ({ type: 'query', name: 'Rule', severity: 'low', enabled: true, tags: [], ...members });
  answers = {
    'GET /_firn/rules': () => Response.json({ a: rule({ tenant: 'acme', channels: ['mail', 'chat'] }), b: rule({ channels: ['mail'] }), c: rule({}) }),
    'GET /_firn/rules/_stats': () => Response.json({}),
    'POST /.alerts-*/_search': () => Response.json({ hits: { hits: [] } }),
    'GET /_firn/channels': () => Response.json({}),
    'GET /_firn/channels/_stats': () => Response.json({}),
  };
  open('/rules');
  expect(await screen.findByRole('button', { name: 'Tenant, Channels' })).toBeTruthy();
  expect(screen.getByText('acme · mail, chat')).toBeTruthy();
  expect(screen.getByText('mail')).toBeTruthy();
  // Without the margins of the page and the scroll bar of the table.
  const table = screen.getByRole('region', { name: 'rules' }).querySelector('table');
  expect(parseInt(table?.style.minWidth ?? '')).toBeLessThanOrEqual(1231);
});

it("creates a rule from the query of the URL, and shows the server's error", async () => {
  const refused = () => Response.json({ error: { type: 'illegal_argument_exception', reason: 'rule [root-logon]: [ids] is not supported in rules' } }, { status: 400 });
  answers = { 'PUT /_firn/rules/root-logon': refused };
  open('/rules/new/query?q=user.name%3A+root');
  fireEvent.change(screen.getByLabelText(/^Name/), { target: { value: 'Root logon' } });
  expect((screen.getByLabelText(/^ID/) as HTMLInputElement).value).toBe('root-logon');
  fireEvent.click(screen.getByRole('button', { name: 'Create rule' }));
  expect(await screen.findByText('rule [root-logon]: [ids] is not supported in rules')).toBeTruthy();
  expect(sent.find(({ method }) => method === 'PUT')?.body).toEqual({ type: 'query', name: 'Root logon', query: 'user.name: root' });
});

it('tests a threshold on stored events, after it says what it would fetch', async () => {
  let runs = 0;
  answers = {
    'POST /_firn/rules/_test': () => Response.json(runs++ === 0 ? { ran: false, cost: { bytes: 5 << 20 } } : { ran: true, events: 120, alerts: 3, partial: true }),
  };
  open('/rules/new/query?q=event.action%3A+denied');
  fireEvent.change(screen.getByLabelText(/^Name/), { target: { value: 'Port scan' } });
  fireEvent.click(screen.getByRole('textbox', { name: 'Raise an alert for' }));
  fireEvent.click(await screen.findByText('Threshold: many events within a time window'));
  fireEvent.change(screen.getByLabelText(/^At least/), { target: { value: '20' } });
  fireEvent.click(screen.getByRole('button', { name: 'Test rule' }));
  fireEvent.click(await screen.findByRole('button', { name: 'Test anyway' }));
  expect(await screen.findByText(/not all events were read/)).toBeTruthy();
  const rule = { type: 'threshold', name: 'Port scan', query: 'event.action: denied', window: '5m', threshold: { count: 20 } };
  expect(sent.filter(({ path }) => path.endsWith('_test')).map(({ body }) => body)).toEqual([
    { rule, index: '*', from: 'now-30d', examples: 0 },
    { rule, index: '*', from: 'now-30d', examples: 0, fetch: true },
  ]);
});

it('edits the YAML of a Sigma rule', async () => {
  answers = { 'GET /_firn/rules/log': () => Response.json({ log: SIGMA }), 'PUT /_firn/rules/log': () => Response.json({ acknowledged: true }) };
  open('/rules/log');
  fireEvent.change(await screen.findByLabelText(/^Sigma rule/), { target: { value: 'title: Other\n' } });
  fireEvent.click(screen.getByRole('button', { name: 'Save' }));
  expect(await screen.findByRole('heading', { name: 'Other' })).toBeTruthy();
  expect(sent.find(({ method }) => method === 'PUT')?.body).toEqual({ ...SIGMA, sigma: 'title: Other\n' });
});

it('tests a Sigma rule on the records of stored events', async () => {
  const notEvaluated = { events: 1, reasons: [{ reason: 'no record', events: 1 }] };
  answers = {
    'GET /_firn/rules/log': () => Response.json({ log: SIGMA }),
    'POST /_firn/rules/_test': () => Response.json({ ran: true, read: 1200, events: 3, alerts: 3, partial: true, not_evaluated: notEvaluated }),
  };
  open('/rules/log');
  fireEvent.click(await screen.findByRole('button', { name: 'Test rule' }));
  const shown = (await screen.findByText(/events were read/)).textContent;
  expect(shown).toBe('3 alerts of 3 matching events; 1,200 events were read; 1 event could not be evaluated: no record (1); there may be more');
  expect(sent.find(({ path }) => path.endsWith('_test'))?.body).toEqual({ rule: SIGMA, index: '*', from: 'now-30d', examples: 0 });
});

it('creates a Sigma rule', async () => {
  answers = { 'PUT /_firn/rules/cleared': () => Response.json({ acknowledged: true }), 'GET /_firn/rules/cleared': () => Response.json({ cleared: SIGMA }) };
  open('/rules/new/query');
  fireEvent.click(screen.getByRole('textbox', { name: 'Raise an alert for' }));
  fireEvent.click(await screen.findByText('Sigma: each record that matches a rule in YAML'));
  fireEvent.change(screen.getByLabelText(/^ID/), { target: { value: 'cleared' } });
  fireEvent.change(screen.getByLabelText(/^Sigma rule/), { target: { value: 'title: A\n' } });
  fireEvent.change(screen.getByLabelText(/^Note/), { target: { value: 'Look at the host.' } });
  fireEvent.click(screen.getByRole('button', { name: 'Create rule' }));
  await vi.waitFor(() => expect(sent.find(({ method }) => method === 'PUT')?.body).toEqual({ type: 'sigma', sigma: 'title: A\n', note: 'Look at the host.' }));
});

it('lists the rules that an import refused, and what was not taken over', async () => {
  const members = [{ member: 'actions', reason: 'channels deliver the alerts' }];
  const of = (id: string, line: number) => ({ line, id, name: `Rule ${id}`, members });
  const answer = [
    { imported: ['a'], refused: [{ line: 4, id: 'b', name: 'Correlation', reason: 'correlation rules are not supported' }], not_taken: [], notes: [] },
    { imported: ['1', '2', '3', '4'], refused: [], not_taken: ['1', '2', '3', '4'].map((id, at) => of(id, at + 1)), notes: [{ line: 1, id: '1', name: 'Scheduled', members: [{ member: 'from', reason: 'nothing to schedule' }] }] },
  ];
  answers = {
    'GET /_firn/rules': () => Response.json({}),
    'POST /_firn/rules/_import': () => Response.json(answer.shift()),
  };
  open('/rules');
  fireEvent.click(await screen.findByRole('button', { name: 'Import rules' }));
  // Files of jsdom have no text.
  const files = [new File(['title: A\n'], 'a.yml'), new File(['title: B'], 'b.yml'), new File(['{}'], 'k.ndjson')];
  fireEvent.change(document.querySelector('input[type=file]') as HTMLInputElement, { target: { files } });
  fireEvent.click(await screen.findByRole('button', { name: 'Import 3 files' }));
  expect(await screen.findByText('5 imported, 1 refused')).toBeTruthy();
  expect(screen.getByText('correlation rules are not supported')).toBeTruthy();
  expect(screen.getByText('b.yml:1')).toBeTruthy();
  expect(screen.getByText('Rule 1, Rule 2, Rule 3 and 1 more')).toBeTruthy();
  expect(within(screen.getByRole('region', { name: 'Notes' })).getByText('nothing to schedule')).toBeTruthy();
  expect(sent.filter(({ path }) => path.endsWith('_import')).map(({ body }) => body)).toEqual(['title: A\n\n---\ntitle: B', {}]);
});

it('is not for the view of a tenant', () => {
  answers = {};
  open('/rules', 'acme');
  expect(screen.getByText('the events')).toBeTruthy();
});

it('shows the events that a rule missed, and runs it over them', async () => {
  const hole = { pipeline: 'web', from: { received: '2026-01-01T10:00:00.000Z' }, to: { received: '2026-01-01T11:00:00.000Z' }, filled: false };
  const first = { pipeline: 'web', from: { received: '2026-01-01T09:00:00.000Z' }, to: { received: '2026-01-01T10:00:00.000Z' } };
  const runs = [
    { ran: true, alerts: 3, existing: 1, complete: false, continue_from: '2026-01-01T10:30:00.000Z' },
    { ran: true, alerts: 2, existing: 0, complete: true, not_evaluated: { events: 2, reasons: [{ reason: 'no record', events: 2 }] } },
  ];
  answers = {
    'GET /_firn/rules/denied': () => Response.json({ denied: ROOT }),
    'GET /_firn/rules/denied/_coverage': () => Response.json({ coverage: [first, { pipeline: 'web', from: hole.to }], holes: [hole], runs: [], partial: false }),
    'POST /_firn/rules/denied/_run': () => Response.json(runs.shift()),
  };
  open('/rules/denied');
  expect(await screen.findByText('Evaluated by web.')).toBeTruthy();
  expect(screen.getByText('not filled')).toBeTruthy();
  fireEvent.click(screen.getByRole('button', { name: 'Run on missed events' }));
  const shown = (await screen.findByText(/matching event has an alert already/)).textContent;
  expect(shown).toContain('5 new alerts; 1 matching');
  expect(shown).toContain('; 2 events could not be evaluated: no record (2)');
  const bodies = sent.filter(({ path }) => path.endsWith('/_run')).map(({ body }) => body);
  expect(bodies).toEqual([
    { index: '*', from: '2026-01-01T10:00:00.000Z', to: '2026-01-01T11:00:00.000Z' },
    { index: '*', from: '2026-01-01T10:30:00.000Z', to: '2026-01-01T11:00:00.000Z' },
  ]);
});

const SEQUENCE = { type: 'sequence', name: 'Guessed password', within: '10m', lateness: '1m', steps: [{ name: 'failure', query: 'a: 1' }, { query: 'a: 2', language: 'lucene' }] };

it('edits the steps of a sequence, and the focus follows them', async () => {
  answers = {
    'GET /_firn/rules/guess': () => Response.json({ guess: SEQUENCE }),
    'GET /_firn/rules/guess/_coverage': () => Response.json({ coverage: [], holes: [], runs: [], partial: false }),
    'PUT /_firn/rules/guess': () => Response.json({ acknowledged: true }),
  };
  open('/rules/guess');
  const queryOf = (step: number) => screen.getByRole<HTMLTextAreaElement>('textbox', { name: `Query of step ${step}` });
  const button = (name: string) => screen.getByRole<HTMLButtonElement>('button', { name });
  expect((await screen.findByRole<HTMLTextAreaElement>('textbox', { name: 'Query of step 1' })).value).toBe('a: 1');
  // A sequence has at least two steps.
  expect(button('Remove step 1').disabled).toBe(true);
  fireEvent.click(button('Add step'));
  expect(document.activeElement).toBe(queryOf(3));
  expect(screen.getByText('Fill in: Query of step 3')).toBeTruthy();
  fireEvent.change(queryOf(3), { target: { value: 'a: 3' } });
  const up = button('Move step 3 up');
  up.focus();
  fireEvent.click(up);
  expect(document.activeElement).toBe(up);
  expect(up.getAttribute('aria-label')).toBe('Move step 2 up');
  fireEvent.click(up);
  // It is the first one, and has not lost the focus.
  expect([queryOf(1).value, queryOf(2).value, queryOf(3).value]).toEqual(['a: 3', 'a: 1', 'a: 2']);
  expect(document.activeElement).toBe(button('Move step 1 up'));
  // Browsers take the focus from a disabled button.
  expect(button('Move step 1 up').disabled).toBe(false);
  expect(screen.getByText('Step 2 is now step 1 of 3')).toBeTruthy();
  fireEvent.click(up);
  fireEvent.click(button('Remove step 2'));
  expect(document.activeElement).toBe(queryOf(2));
  fireEvent.change(screen.getByRole('textbox', { name: 'Name of step 2' }), { target: { value: 'step 1' } });
  expect(screen.getByText('Another step has this name')).toBeTruthy();
  expect(button('Save').disabled).toBe(true);
  fireEvent.change(screen.getByRole('textbox', { name: 'Name of step 2' }), { target: { value: 'success' } });
  fireEvent.change(screen.getByLabelText(/^Within/), { target: { value: '5m' } });
  fireEvent.click(button('Save'));
  await vi.waitFor(() =>
    expect(sent.find(({ method }) => method === 'PUT')?.body).toEqual({ ...SEQUENCE, within: '5m', steps: [{ query: 'a: 3' }, { name: 'success', query: 'a: 2', language: 'lucene' }] }),
  );
  // Many inputs: slow on a busy machine.
}, 20_000);

it('creates a rate of change, and tells while it is typed what the server would refuse', async () => {
  const verdicts = [{ valid: false, error: '[*] is not supported in rules' }, { valid: true }];
  answers = {
    'POST /_firn/rules/_validate': () => Response.json(verdicts.shift()),
    'POST /_firn/rules/_test': () => Response.json({ ran: true, events: 1200, alerts: 1200 }),
    'PUT /_firn/rules/quiet': () => Response.json({ acknowledged: true }),
  };
  open('/rules/new/query?q=*');
  fireEvent.change(screen.getByLabelText(/^Name/), { target: { value: 'Quiet' } });
  fireEvent.click(screen.getByRole('textbox', { name: 'Raise an alert for' }));
  fireEvent.click(await screen.findByText('Rate of change: far more or fewer events than usual'));
  const create = () => screen.getByRole<HTMLButtonElement>('button', { name: 'Create rule' });
  expect(screen.getByText('Fill in: Rise or Drop')).toBeTruthy();
  expect(create().disabled).toBe(true);
  fireEvent.change(screen.getByLabelText(/^Drop/), { target: { value: '120' } });
  expect(screen.getByText('More than 0, at most 100')).toBeTruthy();
  expect(create().disabled).toBe(true);
  fireEvent.change(screen.getByLabelText(/^Drop/), { target: { value: '80' } });
  fireEvent.change(screen.getByLabelText(/^Baseline/), { target: { value: '6' } });
  expect(screen.getByText(/a window of 5m is at least 80% below the mean of the 6 previous windows, which is at least 20 events/)).toBeTruthy();
  expect(await screen.findByText('[*] is not supported in rules')).toBeTruthy();
  fireEvent.change(screen.getByLabelText(/^Query/), { target: { value: 'observer.name: *' } });
  // What the server said is of another definition.
  expect(screen.queryByText('[*] is not supported in rules')).toBeNull();
  expect(await screen.findByText('The definition is valid.')).toBeTruthy();
  const rule = { type: 'rate_of_change', name: 'Quiet', query: 'observer.name: *', window: '5m', change: { drop_percent: 80, baseline_windows: 6 } };
  expect(sent.findLast(({ path }) => path.endsWith('_validate'))?.body).toEqual({ rule });
  fireEvent.click(screen.getByRole('button', { name: 'Test rule' }));
  expect((await screen.findByText(/matching events/)).textContent).toBe('1,200 matching events');
  fireEvent.click(create());
  await vi.waitFor(() => expect(sent.find(({ method }) => method === 'PUT')?.body).toEqual(rule));
});

it('says that a rule is missing, and leads to the correlation that it may be part of', async () => {
  const missing = () => Response.json({ error: { type: 'resource_not_found_exception', reason: 'detection rule [brute/failed] is missing' } }, { status: 404 });
  answers = { 'GET /_firn/rules/brute%2Ffailed': missing };
  open('/rules/brute%2Ffailed');
  expect(await screen.findByText('Rule not found')).toBeTruthy();
  expect(screen.getByRole('link', { name: 'brute' }).getAttribute('href')).toBe('/rules/brute');
  expect(screen.queryByRole('button', { name: 'Delete' })).toBeNull();
});

const PATCHES = { title: 'Patches', start: '2026-01-01T22:00', duration: '4h', timezone: 'Europe/Berlin', rules: ['root'], status: { active: true, active_until: '2026-01-02T02:00:00+01:00', next_start: null } };

it('lists maintenance windows, and ends the running one as it is stored by then', async () => {
  const later = { title: 'Later', start: '2026-06-01T00:00', duration: '1h', status: { active: false, active_until: null, next_start: '2026-06-01T00:00:00Z' } };
  answers = {
    'GET /_firn/rules': () => Response.json({ root: { ...ROOT, tags: [] } }),
    'GET /_firn/maintenance_windows': () => Response.json({ later, patches: PATCHES, broken: { title: 'Broken', start: 'x', status: { active: false, error: '[start] is a date' } } }),
    'GET /_firn/maintenance_windows/patches': () => Response.json({ patches: { ...PATCHES, tenant: 'acme' } }),
    'PUT /_firn/maintenance_windows/patches': () => Response.json({ acknowledged: true }),
    'DELETE /_firn/maintenance_windows/later': () => Response.json({ acknowledged: true }),
  };
  open('/rules/maintenance/windows');
  expect(await screen.findByText('rule Logon as root')).toBeTruthy();
  const rows = screen.getAllByRole('row').slice(1);
  expect(rows.map(({ textContent }) => /^(running|upcoming|invalid|finished)(Patches|Later|Broken)/.exec(textContent ?? '')?.[0])).toEqual(['runningPatches', 'upcomingLater', 'invalidBroken']);
  expect(screen.getByText('[start] is a date')).toBeTruthy();
  expect(screen.queryByRole('button', { name: 'End now: Later' })).toBeNull();
  fireEvent.click(screen.getByRole('button', { name: 'End now: Patches' }));
  fireEvent.click(await screen.findByRole('button', { name: 'End now' }));
  await vi.waitFor(() => expect(sent.find(({ method }) => method === 'PUT')?.body).toMatchObject({ title: 'Patches', start: '2026-01-01T22:00', tenant: 'acme', end: expect.stringMatching(/Z$/) as string }));
  expect(sent.find(({ method }) => method === 'PUT')?.body).not.toHaveProperty('duration');
  fireEvent.click(screen.getByRole('button', { name: 'Delete Later' }));
  fireEvent.click(await screen.findByRole('button', { name: 'Delete maintenance window' }));
  await vi.waitFor(() => expect(sent.some(({ method, path }) => method === 'DELETE' && path.endsWith('/later'))).toBe(true));
});

it('creates a maintenance window that repeats', async () => {
  answers = {
    'GET /_firn/rules': () => Response.json({ root: { ...ROOT, tags: [] } }),
    'PUT /_firn/maintenance_windows/patch-day': () => Response.json({ acknowledged: true }),
    'GET /_firn/maintenance_windows': () => Response.json({}),
  };
  open('/rules/maintenance/new');
  expect(screen.getByText('Fill in: Title, ID')).toBeTruthy();
  fireEvent.change(screen.getByLabelText(/^Title/), { target: { value: 'Patch day' } });
  fireEvent.change(screen.getByLabelText(/^Start/), { target: { value: '2026-12-01T22:00' } });
  fireEvent.change(screen.getByLabelText(/^Length/), { target: { value: '8d' } });
  fireEvent.click(screen.getByRole('textbox', { name: 'Repeats' }));
  fireEvent.click(await screen.findByText('Every week'));
  expect(screen.getByText('From 1ms to 7d')).toBeTruthy();
  expect(screen.getByRole<HTMLButtonElement>('button', { name: 'Create maintenance window' }).disabled).toBe(true);
  fireEvent.change(screen.getByLabelText(/^Length/), { target: { value: '4h' } });
  fireEvent.click(screen.getByLabelText('Thu'));
  fireEvent.click(screen.getByRole('textbox', { name: 'Rules' }));
  fireEvent.click(await screen.findByText('Logon as root (root)'));
  expect(screen.getByText('2026-12-01 22:00 for 4 h, every Thu (UTC)')).toBeTruthy();
  fireEvent.click(screen.getByRole('button', { name: 'Create maintenance window' }));
  await vi.waitFor(() =>
    expect(sent.find(({ method }) => method === 'PUT')?.body).toEqual({ title: 'Patch day', start: '2026-12-01T22:00', duration: '4h', repeat: { every: 'week', weekdays: ['th'] }, rules: ['root'] }),
  );
  expect(await screen.findByText('No maintenance windows')).toBeTruthy();
});
