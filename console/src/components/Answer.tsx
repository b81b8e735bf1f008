import type { UseQueryResult } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import { Failed } from './Failed';
import { Loading } from './Loading';

interface Props<Data> {
  query: UseQueryResult<Data>;
  /** Name of the requested data, such as "Snapshots". */
  what: string;
  children: (data: Data) => ReactNode;
}

/** Loading, failed and loaded state of one query. A failed refresh keeps the previous data and shows the error. */
export function Answer<Data>({ query, what, children }: Props<Data>) {
  const { data, error, refetch } = query;
  if (data === undefined) {
    if (error) return <Failed title={`${what}: request failed`} error={error} retry={() => void refetch()} />;
    return <Loading label={what} />;
  }
  return (
    <>
      {error && <Failed title={`${what}: refresh failed`} error={error} retry={() => void refetch()} compact />}
      {children(data)}
    </>
  );
}
