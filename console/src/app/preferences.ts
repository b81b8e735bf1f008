import { useLocalStorage } from '@mantine/hooks';
import { createContext, useContext } from 'react';
import { type Format, makeFormat } from '../lib/format';

/** `browser` stands for the time zone of the browser. */
export const BROWSER_ZONE = 'browser';

export function resolveZone(zone: string): string {
  return zone === BROWSER_ZONE ? Intl.DateTimeFormat().resolvedOptions().timeZone : zone;
}

/** Time zone that the user selected last, stored in this browser. */
export function useZonePreference() {
  return useLocalStorage({ key: 'firn.zone', defaultValue: BROWSER_ZONE, getInitialValueInEffect: false });
}

export const FormatContext = createContext<Format>(makeFormat('UTC'));

/** Formatter of numbers and times: `const format = useFormat(); format.time(ms)`. */
export const useFormat = (): Format => useContext(FormatContext);
