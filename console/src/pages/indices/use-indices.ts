import { useQuery } from '@tanstack/react-query';
import { listDataStreams, listIndices } from '../../api/indices';
import { explainAll } from '../../api/lifecycle';
import { useSession } from '../../app/session-context';
import { indexRows, streamRows } from './rows';

const REFRESH_MS = 15_000;

/**
 * Fetches all indices and data streams that the user may see. Lifecycles only for operators: tenant users may not read
 * them.
 */
export function useIndices() {
  const { session } = useSession();
  const mayExplain = session.operator && !session.view_as;
  return useQuery({
    queryKey: ['indices', mayExplain],
    queryFn: async ({ signal }) => {
      const [indices, streams, lifecycles] = await Promise.all([listIndices(signal), listDataStreams(signal), mayExplain ? explainAll(signal) : {}]);
      const rows = indexRows(indices, streams, lifecycles);
      return { rows, streams: streamRows(streams, rows) };
    },
    refetchInterval: REFRESH_MS,
  });
}
