import type { Quotas, TenantSettings } from '../../api/tenants';

/** Form field of a quota. */
export interface QuotaField {
  name: keyof Quotas;
  label: string;
  /** A size may be written with a unit, `10mb`; a number may not. */
  kind: 'number' | 'bytes';
  help: string;
}

export const QUOTA_FIELDS: QuotaField[] = [
  { name: 'ingest_events_per_second', label: 'Events per second', kind: 'number', help: 'Ingested' },
  { name: 'ingest_bytes_per_second', label: 'Bytes per second', kind: 'bytes', help: 'Ingested, such as 10mb' },
  { name: 'stored_bytes', label: 'Stored bytes', kind: 'bytes', help: 'Stored, such as 200gb' },
  { name: 'concurrent_searches', label: 'Concurrent searches', kind: 'number', help: 'Running at the same time' },
  { name: 'search_cpu_share', label: 'CPU weight', kind: 'number', help: '1 to 100,000; tenants without one have 100' },
  { name: 'search_repository_bytes', label: 'Repository bytes per search', kind: 'bytes', help: 'Fetched by one search, such as 1gb' },
  { name: 'shared_cache_bytes', label: 'Shared cache', kind: 'bytes', help: 'Space in the frozen cache' },
];

/** Form texts by field; empty fields are inherited. */
export type SettingsForm = Record<'display_name' | 'retention' | keyof Quotas, string>;

const UNITS = ['b', 'kb', 'mb', 'gb', 'tb', 'pb'];

/** Formats bytes exactly in the largest possible unit, as the server parses them: 10485760 is `10mb`. */
export function printBytes(bytes: number): string {
  let amount = bytes;
  let unit = 0;
  while (amount !== 0 && amount % 1024 === 0 && unit < UNITS.length - 1) {
    amount /= 1024;
    unit += 1;
  }
  return `${amount}${UNITS[unit] ?? 'b'}`;
}

export function toForm(settings: TenantSettings): SettingsForm {
  const form = { display_name: settings.display_name ?? '', retention: settings.retention ?? '' } as SettingsForm;
  for (const { name, kind } of QUOTA_FIELDS) {
    const value = settings.quotas[name];
    form[name] = value === undefined ? '' : kind === 'bytes' ? printBytes(value) : String(value);
  }
  return form;
}

/** Converts the form to the request body; empty fields are left out. */
export function toSettings(form: SettingsForm): Record<string, unknown> {
  const quotas: Record<string, string | number> = {};
  for (const { name, kind } of QUOTA_FIELDS) {
    const text = form[name].trim();
    if (text !== '') quotas[name] = kind === 'number' || /^\d+$/.test(text) ? Number(text) : text;
  }
  return {
    ...(form.display_name.trim() && { display_name: form.display_name.trim() }),
    ...(form.retention.trim() && { retention: form.retention.trim() }),
    quotas,
  };
}

/** Validates the form and returns messages by field. The server validates the rest. */
export function problems(form: SettingsForm): Partial<Record<keyof SettingsForm, string>> {
  const found: Partial<Record<keyof SettingsForm, string>> = {};
  if (form.retention.trim() && !/^\d+(d|h|m|s|ms)$/.test(form.retention.trim())) found.retention = 'Enter a time such as 90d or 12h';
  for (const { name, kind } of QUOTA_FIELDS) {
    const text = form[name].trim().toLowerCase();
    if (!text) continue;
    if (kind === 'number' && !/^\d+$/.test(text)) found[name] = 'Enter a whole number';
    if (kind === 'bytes' && !/^\d+(\.\d+)?(b|kb|mb|gb|tb|pb)?$/.test(text)) found[name] = 'Enter a number of bytes, or a size such as 10mb';
  }
  return found;
}

/** Returns whether the server accepts a tenant id. */
export function isTenantId(id: string): boolean {
  return /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/.test(id);
}
