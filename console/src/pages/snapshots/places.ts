import type { Repository } from '../../api/repositories';

/** Form field of a repository setting. */
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

const BASE_PATH: PlaceField = { name: 'base_path', label: 'Base path', help: 'Leave empty for the root' };
const CLIENT: PlaceField = { name: 'client', label: 'Client', help: 'Name of the credentials in the keystore; leave empty for default' };

/** Form fields by repository type. The API accepts further settings. */
export const PLACE_TYPES: PlaceType[] = [
  {
    value: 's3',
    label: 'S3 or S3-compatible',
    fields: [
      { name: 'bucket', label: 'Bucket', help: 'Must exist', required: true },
      BASE_PATH,
      { name: 'endpoint', label: 'Endpoint', help: 'Such as https://minio.example:9000; leave empty for Amazon S3' },
      { name: 'region', label: 'Region', help: 'Leave empty for the region of the client' },
      CLIENT,
    ],
  },
  { value: 'gcs', label: 'Google Cloud Storage', fields: [{ name: 'bucket', label: 'Bucket', help: 'Must exist', required: true }, BASE_PATH, CLIENT] },
  { value: 'azure', label: 'Azure Blob Storage', fields: [{ name: 'container', label: 'Container', help: 'Must exist', required: true }, BASE_PATH, CLIENT] },
  { value: 'fs', label: 'Folder', fields: [{ name: 'location', label: 'Location', help: 'Below a folder of path.repo', required: true }] },
  { value: 'url', label: 'Read-only URL', fields: [{ name: 'url', label: 'URL', help: 'Must match repositories.url.allowed_urls', required: true }] },
];

/** Returns the settings to send: the filled fields. */
export function placeSettings(type: string, filled: Record<string, string>, readonly: boolean): Record<string, unknown> {
  const fields = PLACE_TYPES.find(({ value }) => value === type)?.fields ?? [];
  const settings = fields.flatMap(({ name }) => (filled[name]?.trim() ? [[name, filled[name].trim()] as const] : []));
  return { ...Object.fromEntries(settings), ...(readonly && { readonly: true }) };
}

export function isPlaceComplete(type: string, filled: Record<string, string>): boolean {
  const place = PLACE_TYPES.find(({ value }) => value === type);
  return place !== undefined && place.fields.every(({ name, required }) => !required || Boolean(filled[name]?.trim()));
}

/** Location of a repository in one line. */
export function placeOf({ settings }: Pick<Repository, 'settings'>): string {
  const root = settings['bucket'] ?? settings['container'] ?? settings['location'] ?? settings['url'];
  return [root, settings['base_path']].filter((part) => typeof part === 'string' && part !== '').join('/');
}

/** The server returns settings as text or in their original type. */
export const isReadonly = ({ type, settings }: Pick<Repository, 'type' | 'settings'>): boolean => type === 'url' || String(settings['readonly']) === 'true';
