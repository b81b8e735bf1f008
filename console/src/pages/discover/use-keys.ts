import { useEffect, useRef } from 'react';

/** Where keys write, or belong to something that is open. */
function isTaken(target: EventTarget | null): boolean {
  if (!(target instanceof HTMLElement)) return false;
  return target.isContentEditable || ['INPUT', 'TEXTAREA', 'SELECT'].includes(target.tagName) || target.closest('[role="dialog"], [role="menu"]') !== null;
}

/** Single keys for the whole page; not while somebody writes, and not beside keys that browsers want. */
export function useKeys(keys: Record<string, () => void>): void {
  const latest = useRef(keys);
  latest.current = keys;
  useEffect(() => {
    const press = (event: KeyboardEvent) => {
      if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || isTaken(event.target) || document.querySelector('[aria-modal="true"]')) return;
      const act = latest.current[event.key];
      if (!act) return;
      event.preventDefault();
      act();
    };
    document.addEventListener('keydown', press);
    return () => document.removeEventListener('keydown', press);
  }, []);
}

/** Puts the focus on the part of the page that has this mark. */
export const focusOn = (mark: string) => () => document.querySelector<HTMLElement>(mark)?.focus();

/** Presses the button that has this mark; what it opens gives the focus back to it. */
export function press(mark: string): void {
  const button = document.querySelector<HTMLElement>(mark);
  button?.focus();
  button?.click();
}
