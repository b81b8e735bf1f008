import { useEffect, useRef, useState } from 'react';

/** Menus and list boxes return the focus themselves, and their items disappear with them. */
const PASSING = '[role="menu"], [role="listbox"]';

/** Element that had the focus last; null for the page itself. */
let last: HTMLElement | null = null;

document.addEventListener('focusin', ({ target }) => {
  if (target instanceof HTMLElement && !target.closest(PASSING)) last = target;
});
document.addEventListener('focusout', ({ target, relatedTarget }) => {
  // A button that is disabled while it works still counts as the opener, and so does one in a background window.
  if (target === last && relatedTarget === null && !last?.matches(':disabled') && document.hasFocus()) last = null;
});

/** Returns the focus to the opener when a dialog unmounts; to the page content if the opener is gone. */
export function useReturnFocus(): void {
  const [opener] = useState(() => last);
  const open = useRef(false);
  useEffect(() => {
    open.current = true;
    // If a menu item opened the dialog, the menu returns the focus a moment later: move it back into the dialog.
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

/** Dropdowns that close on a choice or on a click outside. */
const DROPDOWN = '.mantine-Popover-dropdown, .mantine-Menu-dropdown';
/** After this delay, a click outside has moved the focus. */
const CLICKED_MS = 10;

/**
 * Returns the focus to the opener when a menu or popover closes, unless the user has moved it. Mantine's `returnFocus`
 * does not check that.
 */
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

/** Moves the focus to the opener. `closing` is the dropdown that fades out: a focus inside it does not count. */
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
