// @vitest-environment jsdom
import { File } from 'node:buffer';
import { MantineProvider } from '@mantine/core';
import { QueryClient, QueryClientProvider } from '@tanstack/react-query';
import { cleanup, fireEvent, render, screen } from '@testing-library/react';
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
      Response.json({ root: { cpu: { core_percent: 7.25 }, throttled: { reason: 'budget exhausted', until: '2026-01-01T00:00:00Z', evaluated: false } }, log: { cpu: { core_percent: 0 }, throttled: null } }),
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
  expect(screen.getAllByText('budget exhausted')).toHaveLength(1);
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
  fireEvent.click(await screen.findByText('Threshold: many events in a window of time'));
  fireEvent.change(screen.getByLabelText(/^At least/), { target: { value: '20' } });
  fireEvent.click(screen.getByRole('button', { name: 'Test rule' }));
  fireEvent.click(await screen.findByRole('button', { name: 'Test all the same' }));
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
  const members = [{ member: 'interval', reason: 'each event is evaluated as it comes' }];
  const of = (id: string, line: number) => ({ line, id, name: `Rule ${id}`, members });
  const answer = [
    { imported: ['a'], refused: [{ line: 4, id: 'b', name: 'Correlation', reason: 'correlation rules are not supported' }], not_taken: [] },
    { imported: ['1', '2', '3', '4'], refused: [], not_taken: ['1', '2', '3', '4'].map((id, at) => of(id, at + 1)) },
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
    { ran: true, alerts: 2, existing: 0, complete: true },
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
  expect((await screen.findByText(/matching event has an alert already/)).textContent).toContain('5 new alerts; 1 matching');
  const bodies = sent.filter(({ path }) => path.endsWith('/_run')).map(({ body }) => body);
  expect(bodies).toEqual([
    { index: '*', from: '2026-01-01T10:00:00.000Z', to: '2026-01-01T11:00:00.000Z' },
    { index: '*', from: '2026-01-01T10:30:00.000Z', to: '2026-01-01T11:00:00.000Z' },
  ]);
});

it('edits a sequence as JSON', async () => {
  const sequence = { type: 'sequence', name: 'Guessed password', within: '10m', steps: [{ query: 'a: 1' }, { query: 'a: 2' }] };
  answers = {
    'GET /_firn/rules/guess': () => Response.json({ guess: sequence }),
    'GET /_firn/rules/guess/_coverage': () => Response.json({ coverage: [], holes: [], runs: [], partial: false }),
    'PUT /_firn/rules/guess': () => Response.json({ acknowledged: true }),
  };
  open('/rules/guess');
  const editor = await screen.findByRole('textbox', { name: 'Definition' });
  fireEvent.change(editor, { target: { value: JSON.stringify({ ...sequence, within: '5m' }) } });
  fireEvent.click(screen.getByRole('button', { name: 'Save rule' }));
  await vi.waitFor(() => expect(sent.find(({ method }) => method === 'PUT')?.body).toEqual({ ...sequence, within: '5m' }));
});
