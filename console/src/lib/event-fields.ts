import { isInstant } from './format';
import { WholeNumber } from './json';

/** Maximum number of fields shown per event. The JSON tab shows all. */
const FIELDS_MAX = 2000;
const DEPTH_MAX = 20;

export interface EventField {
  /** Full path, as the mapping names it. */
  name: string;
  value: unknown;
}

/** Returns the leaf fields of an event in source order: descends into objects, keeps arrays. */
export function flatten(source: Record<string, unknown>): EventField[] {
  const fields: EventField[] = [];
  const visit = (prefix: string, object: Record<string, unknown>, depth: number) => {
    for (const [key, value] of Object.entries(object)) {
      if (fields.length >= FIELDS_MAX) return;
      const name = prefix === '' ? key : `${prefix}.${key}`;
      if (isObject(value) && depth < DEPTH_MAX && Object.keys(value).length > 0) visit(name, value, depth + 1);
      else fields.push({ name, value });
    }
  };
  visit('', source, 0);
  return fields;
}

/**
 * Returns the value at a path. Dots separate objects or are part of keys; for arrays of objects, it collects all
 * values.
 */
export function valueAt(value: unknown, path: string): unknown {
  if (Array.isArray(value)) {
    const found = value.map((item) => valueAt(item, path)).filter((item) => item !== undefined);
    return found.length === 0 ? undefined : found.length === 1 ? found[0] : found.flat();
  }
  if (!isObject(value)) return undefined;
  if (Object.hasOwn(value, path)) return value[path];
  for (let dot = path.indexOf('.'); dot >= 0; dot = path.indexOf('.', dot + 1)) {
    const head = path.slice(0, dot);
    if (!Object.hasOwn(value, head)) continue;
    const found = valueAt(value[head], path.slice(dot + 1));
    if (found !== undefined) return found;
  }
  return undefined;
}

/** Formats a value as one line of text, truncated after `charsMax`. */
export function textOf(value: unknown, charsMax = Number.POSITIVE_INFINITY): string {
  const text = wholeText(value, charsMax);
  return text.length > charsMax ? `${text.slice(0, charsMax)}…` : text;
}

function wholeText(value: unknown, charsMax: number): string {
  if (typeof value === 'string') return value;
  if (value === undefined || value === null) return value === null ? 'null' : '';
  if (Array.isArray(value) && value.every((item) => !isObject(item) && !Array.isArray(item))) {
    const parts: string[] = [];
    let chars = 0;
    for (const item of value) {
      if (chars > charsMax) break;
      const text = textOf(item);
      parts.push(text);
      chars += text.length + 2;
    }
    return parts.join(', ');
  }
  return isObject(value) || Array.isArray(value) ? JSON.stringify(value) : String(value);
}

/**
 * Parses a date value of an event to milliseconds since the epoch; null if it is not a supported date. UTC without a
 * zone.
 */
export function dateMs(value: unknown): number | null {
  if (typeof value === 'number') return isInstant(value) ? value : null;
  if (typeof value !== 'string' || !/^\d{4}-\d{2}-\d{2}([T ]|$)/.test(value)) return null;
  const iso = value.replace(' ', 'T');
  const ms = Date.parse(iso.length > 10 && !/(Z|[+-]\d{2}:?\d{2})$/.test(iso) ? `${iso}Z` : iso);
  return Number.isNaN(ms) ? null : ms;
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value) && !(value instanceof WholeNumber);
}
