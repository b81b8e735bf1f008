import type { TimeRange } from '../../lib/time-range';

/** What a panel draws: events over time by the values of a field, or its most frequent values. */
export type PanelKind = 'time' | 'top';

export interface Panel {
  title: string;
  kind: PanelKind;
  /** Empty: nobody has said which yet. */
  field: string;
  /** The query string of an address of Discover, as a saved search holds it: which events. */
  search?: string;
  /** The saved search that it is drawn of; what that is changed to counts. */
  saved?: string;
}

/** Everything that the page shows, as its address says it. */
export interface DashboardState {
  source: string;
  range: TimeRange;
  /** KQL that all panels share. */
  text: string;
  /** Null: those of an investigation of web logs. */
  panels: Panel[] | null;
  refreshMs: number;
  /** The saved dashboard that this began with, and its version then. */
  saved: { id: string; version: number } | null;
}

export const DEFAULT_RANGE: TimeRange = { from: 'now-7d', to: 'now' };
/** More are more than anybody looks at, and each is a search. */
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

/** What an address says, and what of it could not be read. */
export function decodeState(search: string): { state: DashboardState; problems: string[] } {
  const params = new URLSearchParams(search);
  const problems: string[] = [];
  const [from, to, ...more] = (params.get('t') ?? '').split(',');
  const hasRange = Boolean(from && to) && more.length === 0;
  if (params.get('t') && !hasRange) problems.push(`there is no time range [${params.get('t') ?? ''}]`);
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
    // Said below.
  }
  problems.push('the panels cannot be read');
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

/** Names that servers and shippers give to what an investigation asks about, the most usual first. */
const ROLES = {
  status: ['http.response.status_code', 'status', 'status_code', 'http_status', 'response'],
  url: ['url.path', 'url.original', 'path', 'url', 'uri', 'request'],
  country: ['source.geo.country_iso_code', 'client.geo.country_iso_code', 'geoip.country_code2', 'geoip.country_iso_code', 'country_code', 'country', 'dst_country', 'city'],
  client: ['source.ip', 'client.ip', 'client_ip', 'clientip', 'remote_addr', 'src_ip', 'ip'],
  agent: ['user_agent.name', 'user_agent.original', 'user_agent', 'agent'],
};

export type Role = keyof typeof ROLES;

/** All of them, and the field of each role as `keyword` beside `text` has it. */
export const CANDIDATES: string[] = Object.values(ROLES).flatMap((names) => names.flatMap((name) => [name, `${name}.keyword`]));

/** Which field of a source plays which role. */
export function rolesOf(aggregatable: ReadonlySet<string>): Partial<Record<Role, string>> {
  const roles = Object.entries(ROLES).map(([role, names]) => [role, names.flatMap((name) => [name, `${name}.keyword`]).find((name) => aggregatable.has(name))] as const);
  return Object.fromEntries(roles.filter(([, field]) => field !== undefined));
}

/** The five panels that an investigation of web logs begins with. */
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
