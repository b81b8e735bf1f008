/** Chart colors: distinct, with a contrast of at least 3 : 1 to both backgrounds. */
const PALETTE = {
  light: ['#0b6e99', '#b4570a', '#5a7d1a', '#8f3f97', '#a8323e', '#4a5bc0', '#6b6f2a', '#00756a', '#7a5230', '#56606a'],
  dark: ['#5fb8dc', '#f0a35e', '#a5c95f', '#d08fd6', '#f08a94', '#98a6f2', '#cfc968', '#5cc9bb', '#c9a27c', '#a3adb6'],
};

/** Width of a tick label. The last label needs half of it beside the plot. */
export const LABEL_PX = 56;

/** Time axis of all charts. */
export const AXIS_X = { grid: { show: false }, size: 24, space: 64, font: '11px system-ui' };

/** Colors of text and grid lines. */
export function inks(dark: boolean): { ink: string; line: string } {
  return dark ? { ink: '#9aa5af', line: '#313a41' } : { ink: '#56606a', line: '#dce1e5' };
}

/** Color of the nth series. */
export function seriesColor(at: number, dark: boolean): string {
  const palette = dark ? PALETTE.dark : PALETTE.light;
  return palette[at % palette.length] as string;
}

/** Preferred palette index of well-known values: log levels in their usual colors, and event classes. */
const KNOWN = new Map(Object.entries({
  ...{ emergency: 4, fatal: 4, alert: 4, critical: 4, crit: 4, error: 1, err: 1, high: 1, warning: 6, warn: 6, medium: 6 },
  ...{ info: 0, informational: 0, notice: 7, low: 7, debug: 9, trace: 9 },
  ...{ security: 0, connectivity: 1, system: 2, routing: 3, 'sockets management': 4 },
}));
/** Palette size for other values. The last color is excluded: it is close to the gray of "Other". */
const PLACES = PALETTE.light.length - 1;

/** Palette index of the first values of each field; at most one value per index. */
const owners = new Map<string, Map<string, number>>();

/**
 * Returns the colors of a field's values in one chart, distinct while the palette suffices. A value keeps its color in all
 * charts and at any rank until the page reloads. If a field has more values than colors, only the first values keep theirs.
 */
export function valueColors(field: string, values: readonly string[], dark: boolean): string[] {
  const owned = owners.get(field) ?? new Map<string, number>();
  owners.set(field, owned);
  const taken = new Set(values.flatMap((value) => owned.get(value) ?? []));
  return values.map((value) => {
    let place = owned.get(value);
    if (place === undefined) {
      const wished = KNOWN.get(value.toLowerCase()) ?? hash(value) % PLACES;
      const inOrder = [wished, ...Array.from({ length: PLACES }, (_, step) => (wished + step) % PLACES)];
      const free = inOrder.find((at) => !taken.has(at) && ![...owned.values()].includes(at));
      if (free !== undefined) owned.set(value, free);
      place = free ?? inOrder.find((at) => !taken.has(at)) ?? wished;
      taken.add(place);
    }
    return seriesColor(place, dark);
  });
}

/** FNV-1a. */
function hash(text: string): number {
  let value = 0x811c9dc5;
  for (let at = 0; at < text.length; at += 1) value = Math.imul(value ^ text.charCodeAt(at), 0x01000193) >>> 0;
  return value;
}

/** Color of events without a listed value. */
export const restColor = (dark: boolean): string => (dark ? '#76818b' : '#8b959e');

/** Usual color of an HTTP status class; null for other values. */
export function statusColor(status: string, dark: boolean): string | null {
  const shades: Record<string, [string, string]> = {
    '1': ['#56606a', '#a3adb6'],
    '2': ['#3f7a2a', '#8fc97a'],
    '3': ['#0b6e99', '#5fb8dc'],
    '4': ['#b4570a', '#f0a35e'],
    '5': ['#a8323e', '#f08a94'],
  };
  const pair = /^[1-5](\d\d|xx)$/.test(status) ? shades[status[0] as string] : undefined;
  return pair ? pair[dark ? 1 : 0] : null;
}
