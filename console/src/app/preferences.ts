import { useLocalStorage } from '@mantine/hooks';
import { createContext, useContext } from 'react';
import { type Format, makeFormat } from '../lib/format';

/** `browser` stands for whatever zone the browser is in. */
export const BROWSER_ZONE = 'browser';

export function resolveZone(zone: string): string {
  return zone === BROWSER_ZONE ? Intl.DateTimeFormat().resolvedOptions().timeZone : zone;
}

/** The zone the reader chose last, kept in this browser. */
export function useZonePreference() {
  return useLocalStorage({ key: 'firn.zone', defaultValue: BROWSER_ZONE, getInitialValueInEffect: false });
}

export const FormatContext = createContext<Format>(makeFormat('UTC'));

/** How numbers and times are written: `const format = useFormat(); format.time(ms)`. */
export const useFormat = (): Format => useContext(FormatContext);
