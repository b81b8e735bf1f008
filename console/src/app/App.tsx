import { MantineProvider } from '@mantine/core';
import { Notifications } from '@mantine/notifications';
import { QueryClient, QueryClientProvider } from '@tanstack/react-query';
import { type ReactNode, useMemo } from 'react';
import { BrowserRouter, Navigate, Route, Routes } from 'react-router';
import { ApiError } from '../api/errors';
import { Empty } from '../components/Empty';
import { makeFormat } from '../lib/format';
import { ErrorBoundary } from './ErrorBoundary';
import { usePageTitle } from './page-title';
import { PAGES } from './pages';
import { FormatContext, resolveZone, useZonePreference } from './preferences';
import { SessionProvider } from './SessionProvider';
import { Shell } from './Shell';
import { cssVariables, theme } from './theme';

/** Retries only without a response: a server error is shown, not retried. */
const RETRIES_MAX = 1;

const queryClient = new QueryClient({
  defaultOptions: {
    queries: {
      staleTime: 10_000,
      refetchOnWindowFocus: false,
      retry: (failures, error) => failures < RETRIES_MAX && error instanceof ApiError && error.status === 0,
    },
  },
});

export function App({ nonce }: { nonce: string }) {
  return (
    <MantineProvider theme={theme} cssVariablesResolver={cssVariables} defaultColorScheme="auto" getStyleNonce={() => nonce}>
      <Notifications position="bottom-right" />
      <QueryClientProvider client={queryClient}>
        <Formats>
          <SessionProvider>
            {/* Navigation renders synchronously, so that requests of the new URL leave before the next paint. */}
            <BrowserRouter basename="/app" useTransitions={false}>
              <Routes>
                <Route element={<Shell />}>
                  <Route index element={<Navigate to="/discover" replace />} />
                  {PAGES.map(({ name, Component }) => (
                    <Route
                      key={name}
                      path={`/${name}/*`}
                      element={
                        <ErrorBoundary key={name}>
                          <Component />
                        </ErrorBoundary>
                      }
                    />
                  ))}
                  <Route path="*" element={<NotFound />} />
                </Route>
              </Routes>
            </BrowserRouter>
          </SessionProvider>
        </Formats>
      </QueryClientProvider>
    </MantineProvider>
  );
}

function NotFound() {
  usePageTitle('Page not found');
  return <Empty title="Page not found">Select a page from the navigation bar.</Empty>;
}

function Formats({ children }: { children: ReactNode }) {
  const [zone] = useZonePreference();
  const format = useMemo(() => makeFormat(resolveZone(zone)), [zone]);
  return <FormatContext value={format}>{children}</FormatContext>;
}
