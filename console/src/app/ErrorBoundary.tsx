import { Component, type ReactNode } from 'react';
import { Failed } from '../components/Failed';

interface Props {
  /** What is said of it, such as "The chart is not there". */
  title?: string;
  compact?: boolean;
  /** Stands in its place, if that needs no word. */
  instead?: ReactNode;
  children: ReactNode;
}

/** What browsers and the bundler say when a file of the console does not arrive: the server is away, or has another version now. */
const NOT_LOADED = /dynamically imported module|importing a module script|module script failed|unable to preload/i;

/** What breaks shows that it did, and leaves the rest of the console standing. */
export class ErrorBoundary extends Component<Props, { error: unknown }> {
  override state = { error: null as unknown };

  static getDerivedStateFromError(error: unknown) {
    return { error };
  }

  override render() {
    const { error } = this.state;
    const { title = 'This page broke', compact = false, instead, children } = this.props;
    if (error === null) return children;
    if (instead) return instead;
    // A file that did not arrive is not asked for again by the same page; its address says what the page is about.
    const lost = error instanceof Error && NOT_LOADED.test(error.message);
    const retry = lost ? () => window.location.reload() : () => this.setState({ error: null });
    return <Failed title={title} error={lost ? new Error('A file of the console did not arrive: firn cannot be reached, or it has another version by now.') : error} retry={retry} compact={compact} />;
  }
}
