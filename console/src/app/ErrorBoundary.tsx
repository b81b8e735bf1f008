import { Component, type ReactNode } from 'react';
import { Failed } from '../components/Failed';

/** A page that breaks shows that it did, and leaves the rest of the console standing. */
export class ErrorBoundary extends Component<{ children: ReactNode }, { error: unknown }> {
  override state = { error: null as unknown };

  static getDerivedStateFromError(error: unknown) {
    return { error };
  }

  override render() {
    if (this.state.error === null) return this.props.children;
    return <Failed title="This page broke" error={this.state.error} retry={() => this.setState({ error: null })} />;
  }
}
