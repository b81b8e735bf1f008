import type { Repository } from '../../api/repositories';

/** A setting of a repository that a form asks for. */
export interface PlaceField {
  name: string;
  label: string;
  help: string;
  required?: boolean;
}

export interface PlaceType {
  value: string;
  label: string;
  fields: PlaceField[];
}

const BASE_PATH: PlaceField = { name: 'base_path', label: 'Folder in it', help: 'empty: its root' };
const CLIENT: PlaceField = { name: 'client', label: 'Client', help: 'name of the credentials in the keystore; empty: default' };

/** What each type of repository is asked for; further settings through the API. */
export const PLACE_TYPES: PlaceType[] = [
  {
    value: 's3',
    label: 'S3, or a store that speaks it',
    fields: [
      { name: 'bucket', label: 'Bucket', help: 'it must exist', required: true },
      BASE_PATH,
      { name: 'endpoint', label: 'Endpoint', help: 'such as https://minio.example:9000; empty: Amazon’s' },
      { name: 'region', label: 'Region', help: 'empty: the client’s' },
      CLIENT,
    ],
  },
  { value: 'gcs', label: 'Google Cloud Storage', fields: [{ name: 'bucket', label: 'Bucket', help: 'it must exist', required: true }, BASE_PATH, CLIENT] },
  { value: 'azure', label: 'Azure Blob Storage', fields: [{ name: 'container', label: 'Container', help: 'it must exist', required: true }, BASE_PATH, CLIENT] },
  { value: 'fs', label: 'A folder', fields: [{ name: 'location', label: 'Location', help: 'below a folder of the setting path.repo', required: true }] },
  { value: 'url', label: 'An address, read-only', fields: [{ name: 'url', label: 'Address', help: 'allowed by the setting repositories.url.allowed_urls', required: true }] },
];

/** Settings to send: what was filled in. */
export function placeSettings(type: string, filled: Record<string, string>, readonly: boolean): Record<string, unknown> {
  const fields = PLACE_TYPES.find(({ value }) => value === type)?.fields ?? [];
  const settings = fields.flatMap(({ name }) => (filled[name]?.trim() ? [[name, filled[name].trim()] as const] : []));
  return { ...Object.fromEntries(settings), ...(readonly && { readonly: true }) };
}

export function isPlaceComplete(type: string, filled: Record<string, string>): boolean {
  const place = PLACE_TYPES.find(({ value }) => value === type);
  return place !== undefined && place.fields.every(({ name, required }) => !required || Boolean(filled[name]?.trim()));
}

/** Where a repository lies, in one line. */
export function placeOf({ settings }: Pick<Repository, 'settings'>): string {
  const root = settings['bucket'] ?? settings['container'] ?? settings['location'] ?? settings['url'];
  return [root, settings['base_path']].filter((part) => typeof part === 'string' && part !== '').join('/');
}

/** Settings come as text or as what was sent. */
export const isReadonly = ({ type, settings }: Pick<Repository, 'type' | 'settings'>): boolean => type === 'url' || String(settings['readonly']) === 'true';
