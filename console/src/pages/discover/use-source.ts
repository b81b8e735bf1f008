import { useQuery } from '@tanstack/react-query';
import type { Question } from '../../api/discover';
import { type Fields, fetchFields } from '../../api/fields';
import { fetchSources } from '../../api/sources';

/** How long what sources and fields there are is taken as known. */
const STALE_MS = 60_000;

export const useSources = () => useQuery({ queryKey: ['discover', 'sources'], queryFn: ({ signal }) => fetchSources(signal), staleTime: STALE_MS });

/** What the time of events is called in a source that is not listed; null: they have none. */
export const useTimeField = (source: string | null) =>
  useQuery({
    queryKey: ['discover', 'time field', source],
    queryFn: async ({ signal }) => (await fetchFields({ index: source as string }, signal)).time_field,
    enabled: source !== null,
    staleTime: STALE_MS,
  });

/** The fields of a source, and which of them are in use in the question's time. */
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
