import { type ReactNode, Suspense } from 'react';
import { ErrorBoundary } from '../app/ErrorBoundary';
import { Loading } from './Loading';

interface Props {
  /** Title of the error if it cannot be loaded, such as "Failed to load the chart". */
  lost: string;
  /** Rendered while its files load. */
  fallback?: ReactNode;
  children: ReactNode;
}

/** Lazily loaded part of a page. If its files fail to load, the rest of the page stays. */
export function Part({ lost, fallback = <Loading />, children }: Props) {
  return (
    <ErrorBoundary title={lost} compact>
      <Suspense fallback={fallback}>{children}</Suspense>
    </ErrorBoundary>
  );
}
