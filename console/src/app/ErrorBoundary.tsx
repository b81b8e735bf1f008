import { Component, type ReactNode } from 'react';
import { Failed } from '../components/Failed';

interface Props {
  /** Title of the error, such as "Failed to load the chart". */
  title?: string;
  compact?: boolean;
  /** Rendered instead of an error message. */
  instead?: ReactNode;
  children: ReactNode;
}

/**
 * Browser and bundler messages for a console file that failed to load: the server is unreachable or has been updated.
 */
const NOT_LOADED = /dynamically imported module|importing a module script|module script failed|unable to preload/i;

/** React error boundary: shows the error and keeps the rest of the console working. */
export class ErrorBoundary extends Component<Props, { error: unknown }> {
  override state = { error: null as unknown };

  static getDerivedStateFromError(error: unknown) {
    return { error };
  }

  override render() {
    const { error } = this.state;
    const { title = 'Something went wrong', compact = false, instead, children } = this.props;
    if (error === null) return children;
    if (instead) return instead;
    // Browsers do not retry a failed import within a page, so the page reloads. Its state is in the URL.
    const lost = error instanceof Error && NOT_LOADED.test(error.message);
    const retry = lost ? () => window.location.reload() : () => this.setState({ error: null });
    return <Failed title={title} error={lost ? new Error('Failed to load part of the console: firn is unreachable or has been updated.') : error} retry={retry} compact={compact} />;
  }
}
