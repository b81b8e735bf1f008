import { useQuery } from '@tanstack/react-query';
import type { Question } from '../../api/discover';
import { type Fields, fetchFields } from '../../api/fields';
import { fetchSources } from '../../api/sources';

/** Cache time of sources and fields. */
const STALE_MS = 60_000;

export const useSources = () => useQuery({ queryKey: ['discover', 'sources'], queryFn: ({ signal }) => fetchSources(signal), staleTime: STALE_MS });

/** Fetches the time field of a source that is not listed; null if its events have no time. */
export const useTimeField = (source: string | null) =>
  useQuery({
    queryKey: ['discover', 'time field', source],
    queryFn: async ({ signal }) => (await fetchFields({ index: source as string }, signal)).time_field,
    enabled: source !== null,
    staleTime: STALE_MS,
  });

/** Fetches the fields of a source, and which of them are in use in the time range of the request. */
export function useFields(question: Question | null) {
  const asked = question && { index: question.index, ...(question.time && { time: question.time }) };
  return useQuery({
    queryKey: ['discover', 'fields', asked],
    queryFn: ({ signal }): Promise<Fields> => fetchFields(asked as NonNullable<typeof asked>, signal),
    enabled: asked !== null,
    staleTime: STALE_MS,
    placeholderData: (before) => before,
  });
}
