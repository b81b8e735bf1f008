import { type RefObject, useEffect, useState } from 'react';

/** Returns whether text within an element is selected. */
export function useSelecting(within: RefObject<HTMLElement | null>): boolean {
  const [selecting, setSelecting] = useState(false);
  useEffect(() => {
    const look = () => {
      const selection = document.getSelection();
      setSelecting(selection !== null && !selection.isCollapsed && (within.current?.contains(selection.anchorNode) ?? false));
    };
    document.addEventListener('selectionchange', look);
    return () => document.removeEventListener('selectionchange', look);
  }, [within]);
  return selecting;
}
