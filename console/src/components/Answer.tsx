import type { UseQueryResult } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import { Failed } from './Failed';
import { Loading } from './Loading';

interface Props<Data> {
  query: UseQueryResult<Data>;
  /** What is asked for, as in "Snapshots". */
  what: string;
  children: (data: Data) => ReactNode;
}

/** The loading and failed looks of one question, and its answer. A failed refresh leaves what was known, and says so. */
export function Answer<Data>({ query, what, children }: Props<Data>) {
  const { data, error, refetch } = query;
  if (data === undefined) {
    if (error) return <Failed title={`${what}: no answer`} error={error} retry={() => void refetch()} />;
    return <Loading label={what} />;
  }
  return (
    <>
      {error && <Failed title={`${what}: not up to date`} error={error} retry={() => void refetch()} compact />}
      {children(data)}
    </>
  );
}
