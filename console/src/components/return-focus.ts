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

function giveBack(opener: HTMLElement | null): void {
  const taken = document.activeElement !== null && document.activeElement !== document.body;
  if (opener === null || taken) return;
  if (opener.isConnected && !opener.matches(':disabled')) {
    opener.focus({ preventScroll: true });
    return;
  }
  document.querySelector('main')?.focus({ preventScroll: true });
}
