/**
 * What requests need to know of the session, outside of React: the CSRF token, and whether the session has expired.
 * A request that meets a 401 waits here until somebody has signed in again, then goes on; the page keeps its state.
 *
 * The token is of one user and one view: with it a request says whose eyes it believes to have. Other tabs share the
 * cookie and may have changed that; what is refused for it waits until the session was looked at anew.
 */
class Credentials {
  private csrf: string | null = null;
  private ended = false;
  private views = 0;
  private look: () => Promise<void> = () => Promise.resolve();
  private looking: Promise<void> | null = null;
  private waiting: { promise: Promise<void>; resolve: () => void } | null = null;
  private readonly listeners = new Set<() => void>();

  /** The header to send with what may change something; empty when the session needs none. */
  headers(): Record<string, string> {
    return this.csrf ? { 'x-firn-csrf': this.csrf } : {};
  }

  /** How often another view was taken here: what was asked before that is not asked again. */
  view(): number {
    return this.views;
  }

  /** Who looks whose session it is now, and then renews what is known here or ends it. */
  onDoubt(look: () => Promise<void>): void {
    this.look = look;
  }

  /** Looks whose session it is now; whoever asks meanwhile waits for the same answer. */
  readonly lookAgain = async (): Promise<void> => {
    this.looking ??= this.look().finally(() => (this.looking = null));
    await this.looking;
    // The page is about to be loaded anew.
    if (this.ended) await new Promise<never>(() => {});
  };

  /** Whether requests wait for a new sign-in. */
  readonly expired = (): boolean => this.waiting !== null;

  readonly subscribe = (listener: () => void): (() => void) => {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  };

  /** Resolves after the next `renew`. Rejects with the signal's reason if that comes first. */
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

  /** A session was made or looked at: its token counts from now on, and whoever waits goes on. */
  renew(csrf: string | null): void {
    if (this.ended) return;
    this.csrf = csrf;
    const waiting = this.waiting;
    this.waiting = null;
    waiting?.resolve();
    if (waiting) this.notify();
  }

  /** Another view was taken here, and this is its token. */
  takeView(csrf: string | null): void {
    this.views += 1;
    this.renew(csrf);
  }

  /** Somebody else has signed in, and the page is about to be loaded anew: whoever waits never goes on. */
  end(): void {
    this.ended = true;
  }

  private notify(): void {
    this.listeners.forEach((listener) => listener());
  }
}

export const credentials = new Credentials();
