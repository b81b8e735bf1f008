import { request } from './request';

/** `GET /{index}/_field_caps`: capabilities of fields by type. */
interface FieldCaps {
  fields: Record<string, Record<string, { type: string; aggregatable: boolean }>>;
}

/** Returns those of `names` that exist and are aggregatable in all of their types. */
export async function fetchAggregatable(index: string, names: string[], signal?: AbortSignal): Promise<Set<string>> {
  const path = `/${index.split(',').map(encodeURIComponent).join(',')}/_field_caps`;
  const { fields } = await request<FieldCaps>(path, { query: { fields: names.join(','), ignore_unavailable: true }, ...(signal && { signal }) });
  return new Set(Object.entries(fields).flatMap(([name, types]) => (Object.values(types).every(({ aggregatable }) => aggregatable) ? [name] : [])));
}
