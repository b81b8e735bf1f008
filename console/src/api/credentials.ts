/**
 * Session state that requests need outside of React: the CSRF token, and whether the session has expired.
 * A request that gets a 401 waits here until the user has signed in again, then continues; the page keeps its state.
 *
 * The token belongs to one user and one tenant view: it states the identity that the request expects. Other tabs share
 * the cookie and may have changed the session. A request that is refused for that reason waits until the session is
 * fetched again.
 */
class Credentials {
  private csrf: string | null = null;
  private ended = false;
  private views = 0;
  private look: () => Promise<void> = () => Promise.resolve();
  private looking: Promise<void> | null = null;
  private waiting: { promise: Promise<void>; resolve: () => void } | null = null;
  private readonly listeners = new Set<() => void>();

  /** Headers of a request that may change something; empty if the session needs no CSRF token. */
  headers(): Record<string, string> {
    return this.csrf ? { 'x-firn-csrf': this.csrf } : {};
  }

  /** Number of view changes in this tab. A request sent before a change is not retried after it. */
  view(): number {
    return this.views;
  }

  /** Sets the callback that fetches the current session and then renews or ends the credentials. */
  onDoubt(look: () => Promise<void>): void {
    this.look = look;
  }

  /** Fetches the current session. Single flight: concurrent callers wait for the same response. */
  readonly lookAgain = async (): Promise<void> => {
    this.looking ??= this.look().finally(() => (this.looking = null));
    await this.looking;
    // The page is about to reload.
    if (this.ended) await new Promise<never>(() => {});
  };

  /** Whether requests wait for a new sign-in. */
  readonly expired = (): boolean => this.waiting !== null;

  readonly subscribe = (listener: () => void): (() => void) => {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  };

  /** Resolves after the next `renew`. Rejects with the signal's reason if the signal aborts first. */
  async signedInAgain(signal?: AbortSignal): Promise<void> {
    if (!this.waiting) {
      let resolve = () => {};
      const promise = new Promise<void>((done) => (resolve = done));
      this.waiting = { promise, resolve };
      this.notify();
    }
    const { promise } = this.waiting;
    if (!signal) return promise;
    let stop = () => {};
    const aborted = new Promise<never>((_, reject) => {
      stop = () => reject(signal.reason as Error);
      if (signal.aborted) stop();
      else signal.addEventListener('abort', stop, { once: true });
    });
    try {
      await Promise.race([promise, aborted]);
    } finally {
      signal.removeEventListener('abort', stop);
    }
  }

  /** Stores the token of a new or fetched session and resumes the waiting requests. */
  renew(csrf: string | null): void {
    if (this.ended) return;
    this.csrf = csrf;
    const waiting = this.waiting;
    this.waiting = null;
    waiting?.resolve();
    if (waiting) this.notify();
  }

  /** Stores the token of a view that this tab has switched to. */
  takeView(csrf: string | null): void {
    this.views += 1;
    this.renew(csrf);
  }

  /**
   * Ends the credentials because another user has signed in and the page is about to reload: waiting requests never
   * resume.
   */
  end(): void {
    this.ended = true;
  }

  private notify(): void {
    this.listeners.forEach((listener) => listener());
  }
}

export const credentials = new Credentials();
