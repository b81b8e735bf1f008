import type { TimeRange } from '../../lib/time-range';

/** Chart type: events over time broken down by a field, or the top values of a field. */
export type PanelKind = 'time' | 'top';

export interface Panel {
  title: string;
  kind: PanelKind;
  /** Empty if not selected yet. */
  field: string;
  /** Query string of Discover that selects the events, as in a saved search. */
  search?: string;
  /** Id of a saved search; the panel follows its changes. */
  saved?: string;
}

/** State of the dashboard, stored in the URL. */
export interface DashboardState {
  source: string;
  range: TimeRange;
  /** KQL filter of all panels. */
  text: string;
  /** Null for the default panels, which are for web logs. */
  panels: Panel[] | null;
  refreshMs: number;
  /** Saved dashboard that the page was opened from, and its version then. */
  saved: { id: string; version: number } | null;
}

export const DEFAULT_RANGE: TimeRange = { from: 'now-7d', to: 'now' };
/** Maximum number of panels; each is a search. */
export const PANELS_MAX = 20;

export const EMPTY_STATE: DashboardState = { source: '', range: DEFAULT_RANGE, text: '', panels: null, refreshMs: 0, saved: null };

export function encodeState({ source, range, text, panels, refreshMs, saved }: DashboardState): string {
  const params = new URLSearchParams();
  if (source) params.set('i', source);
  if (range.from !== DEFAULT_RANGE.from || range.to !== DEFAULT_RANGE.to) params.set('t', `${range.from},${range.to}`);
  if (text) params.set('q', text);
  if (panels) params.set('p', JSON.stringify(panels));
  if (refreshMs) params.set('auto', String(refreshMs));
  if (saved) params.set('d', `${saved.id},${saved.version}`);
  return params.toString();
}

/** Decodes a query string, and lists its invalid parameters. */
export function decodeState(search: string): { state: DashboardState; problems: string[] } {
  const params = new URLSearchParams(search);
  const problems: string[] = [];
  const [from, to, ...more] = (params.get('t') ?? '').split(',');
  const hasRange = Boolean(from && to) && more.length === 0;
  if (params.get('t') && !hasRange) problems.push(`invalid time range [${params.get('t') ?? ''}]`);
  const refresh = Number(params.get('auto') ?? 0);
  return {
    state: {
      source: params.get('i') ?? '',
      range: hasRange ? { from: from as string, to: to as string } : DEFAULT_RANGE,
      text: params.get('q') ?? '',
      panels: readPanels(params.get('p'), problems),
      refreshMs: refresh >= 1000 ? Math.round(refresh) : 0,
      saved: readSaved(params.get('d')),
    },
    problems,
  };
}

function readPanels(text: string | null, problems: string[]): Panel[] | null {
  if (text === null) return null;
  try {
    const values: unknown = JSON.parse(text);
    if (Array.isArray(values) && values.length <= PANELS_MAX && values.every(isPanel)) return values.map(({ title, kind, field, search, saved }) => ({ title, kind, field, ...(search && { search }), ...(saved && { saved }) }));
  } catch {
    // Reported below.
  }
  problems.push('invalid panels');
  return null;
}

function isPanel(value: unknown): value is Panel {
  if (typeof value !== 'object' || value === null) return false;
  const { title, kind, field, search, saved } = value as Record<string, unknown>;
  const isText = (part: unknown) => part === undefined || typeof part === 'string';
  return typeof title === 'string' && (kind === 'time' || kind === 'top') && typeof field === 'string' && isText(search) && isText(saved);
}

function readSaved(text: string | null): DashboardState['saved'] {
  const found = /^([^,]+),(\d+)$/.exec(text ?? '');
  return found ? { id: found[1] as string, version: Number(found[2]) } : null;
}

/** Usual field names of servers and shippers by role, the most common first. */
const ROLES = {
  status: ['http.response.status_code', 'status', 'status_code', 'http_status', 'response'],
  url: ['url.path', 'url.original', 'path', 'url', 'uri', 'request'],
  country: ['source.geo.country_iso_code', 'client.geo.country_iso_code', 'geoip.country_code2', 'geoip.country_iso_code', 'country_code', 'country', 'dst_country', 'city'],
  client: ['source.ip', 'client.ip', 'client_ip', 'clientip', 'remote_addr', 'src_ip', 'ip'],
  agent: ['user_agent.name', 'user_agent.original', 'user_agent', 'agent'],
};

export type Role = keyof typeof ROLES;

/** All of these names, each also with its keyword sub-field. */
export const CANDIDATES: string[] = Object.values(ROLES).flatMap((names) => names.flatMap((name) => [name, `${name}.keyword`]));

/** Returns the field of each role in a source. */
export function rolesOf(aggregatable: ReadonlySet<string>): Partial<Record<Role, string>> {
  const roles = Object.entries(ROLES).map(([role, names]) => [role, names.flatMap((name) => [name, `${name}.keyword`]).find((name) => aggregatable.has(name))] as const);
  return Object.fromEntries(roles.filter(([, field]) => field !== undefined));
}

/** Returns the five default panels, which are for web logs. */
export function webLogPanels(roles: Partial<Record<Role, string>>): Panel[] {
  const notFound = roles.status ? new URLSearchParams({ q: `${roles.status}: 404` }).toString() : undefined;
  return [
    { title: 'Requests by status', kind: 'time', field: roles.status ?? '' },
    { title: 'Not found (404): top URLs', kind: 'top', field: roles.url ?? '', ...(notFound && { search: notFound }) },
    { title: roles.country === 'city' ? 'Cities' : 'Countries', kind: 'top', field: roles.country ?? '' },
    { title: 'Clients', kind: 'top', field: roles.client ?? '' },
    { title: 'User agents', kind: 'top', field: roles.agent ?? '' },
  ];
}
