/** Colours of charts: apart from each other, and from both backgrounds by 3 : 1 at least. */
const PALETTE = {
  light: ['#0b6e99', '#b4570a', '#5a7d1a', '#8f3f97', '#a8323e', '#4a5bc0', '#6b6f2a', '#00756a', '#7a5230', '#56606a'],
  dark: ['#5fb8dc', '#f0a35e', '#a5c95f', '#d08fd6', '#f08a94', '#98a6f2', '#cfc968', '#5cc9bb', '#c9a27c', '#a3adb6'],
};

/** Text and lines beside them. */
export function inks(dark: boolean): { ink: string; line: string } {
  return dark ? { ink: '#9aa5af', line: '#313a41' } : { ink: '#56606a', line: '#dce1e5' };
}

/** The colour of the nth series. */
export function seriesColor(at: number, dark: boolean): string {
  const palette = dark ? PALETTE.dark : PALETTE.light;
  return palette[at % palette.length] as string;
}

/** Classes of HTTP status as everybody paints them: well, moved, your fault, ours. */
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
