import { type ReactNode, Suspense } from 'react';
import { ErrorBoundary } from '../app/ErrorBoundary';
import { Loading } from './Loading';

interface Props {
  /** What is said if it cannot be shown, such as "The chart is not there". */
  lost: string;
  /** What is shown until its files are there. */
  fallback?: ReactNode;
  children: ReactNode;
}

/** A part of a page whose files come when it is needed. Without them the page stays as it is. */
export function Part({ lost, fallback = <Loading />, children }: Props) {
  return (
    <ErrorBoundary title={lost} compact>
      <Suspense fallback={fallback}>{children}</Suspense>
    </ErrorBoundary>
  );
}
