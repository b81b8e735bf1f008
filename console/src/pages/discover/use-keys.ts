import { useEffect, useRef } from 'react';

/** Returns whether an element handles keys itself: inputs, dialogs and menus. */
function isTaken(target: EventTarget | null): boolean {
  if (!(target instanceof HTMLElement)) return false;
  return target.isContentEditable || ['INPUT', 'TEXTAREA', 'SELECT'].includes(target.tagName) || target.closest('[role="dialog"], [role="menu"]') !== null;
}

/** Registers single-key shortcuts for the page; inactive while the user types, and with Ctrl, Meta or Alt. */
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

/** Focuses the element that matches a selector. */
export const focusOn = (mark: string) => () => document.querySelector<HTMLElement>(mark)?.focus();

/** Clicks the button that matches a selector, after focusing it so that the focus returns there. */
export function press(mark: string): void {
  const button = document.querySelector<HTMLElement>(mark);
  button?.focus();
  button?.click();
}
