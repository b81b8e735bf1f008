import { useCallback, useEffect, useState } from 'react';

/**
 * Auto-refresh of all panels in rounds. A round starts `everyMs` after all panels of the previous one are done, so that
 * slow searches are not restarted.
 */
export function useRounds(everyMs: number) {
  const [round, setRound] = useState(0);
  const [busy, setBusy] = useState<ReadonlySet<string>>(new Set());
  const again = useCallback(() => setRound((before) => before + 1), []);
  const onBusy = useCallback((panel: string, isBusy: boolean) => {
    setBusy((before) => {
      if (before.has(panel) === isBusy) return before;
      const next = new Set(before);
      if (isBusy) next.add(panel);
      else next.delete(panel);
      return next;
    });
  }, []);
  const idle = busy.size === 0;
  useEffect(() => {
    if (everyMs === 0 || !idle) return;
    const timer = setTimeout(again, everyMs);
    return () => clearTimeout(timer);
  }, [everyMs, idle, round, again]);
  return { round, again, onBusy };
}
