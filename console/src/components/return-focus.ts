import { useEffect, useRef, useState } from 'react';

/** Menus and lists of choices give the focus back by themselves, and what is chosen there is gone with them. */
const PASSING = '[role="menu"], [role="listbox"]';

/** What had the focus last; null: the page itself. */
let last: HTMLElement | null = null;

document.addEventListener('focusin', ({ target }) => {
  if (target instanceof HTMLElement && !target.closest(PASSING)) last = target;
});
document.addEventListener('focusout', ({ target, relatedTarget }) => {
  // One that is disabled while it works is still what was pressed, and so is one in a window behind another.
  if (target === last && relatedTarget === null && !last?.matches(':disabled') && document.hasFocus()) last = null;
});

/** Gives the focus back to what opened a dialog when that goes, however it ends; if that is gone too, to the page's content. */
export function useReturnFocus(): void {
  const [opener] = useState(() => last);
  const open = useRef(false);
  useEffect(() => {
    open.current = true;
    // A menu gives the focus back a moment after what was chosen in it has opened this.
    const keep = ({ target, relatedTarget }: FocusEvent) => {
      if (target === opener && relatedTarget instanceof HTMLElement && relatedTarget.isConnected) relatedTarget.focus({ preventScroll: true });
    };
    document.addEventListener('focusin', keep);
    return () => {
      open.current = false;
      document.removeEventListener('focusin', keep);
      window.setTimeout(() => {
        if (!open.current) giveBack(opener);
      });
    };
  }, [opener]);
}

/** What goes away with its choice, or is left by a click elsewhere. */
const DROPDOWN = '.mantine-Popover-dropdown, .mantine-Menu-dropdown';
/** By then a click elsewhere has moved the focus. */
const CLICKED_MS = 10;

/** Gives the focus back to what opened a menu or popover when that closes, unless somebody has put it elsewhere. Their own way to do so asks nobody. */
export function useGiveBack(opened: boolean): void {
  const opener = useRef<HTMLElement | null>(null);
  useEffect(() => {
    const { activeElement } = document;
    if (opened) {
      opener.current = activeElement instanceof HTMLElement ? activeElement : null;
      return;
    }
    const from = opener.current;
    opener.current = null;
    if (from === null) return;
    const closing = activeElement?.closest(DROPDOWN) ?? null;
    const timer = window.setTimeout(() => giveBack(from, closing), CLICKED_MS);
    return () => window.clearTimeout(timer);
  }, [opened]);
}

/** `closing` fades away, and what has the focus in it loses it. */
function giveBack(opener: HTMLElement | null, closing: Element | null = null): void {
  const { activeElement } = document;
  const taken = activeElement !== null && activeElement !== document.body && !closing?.contains(activeElement);
  if (opener === null || taken) return;
  if (opener.isConnected && !opener.matches(':disabled')) {
    opener.focus({ preventScroll: true });
    return;
  }
  document.querySelector('main')?.focus({ preventScroll: true });
}
