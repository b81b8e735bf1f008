import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { firnBinary } from './paths';

export interface Account {
  username: string;
  password: string;
}

/** Operator of a server with security. */
export const OPERATOR: Account = { username: 'elastic', password: 'operator of the tests' };

export interface FirnOptions {
  /** Whether authentication is on, with `OPERATOR` as its operator. */
  security?: boolean;
  settings?: Record<string, string>;
}

const START_MS_MAX = 30_000;

/** A firn process on a free loopback port, with data in a temporary folder. */
export class Firn {
  private child: ChildProcess | null = null;
  private port = 0;
  private log = '';
  url = '';

  private constructor(
    private readonly folder: string,
    private readonly options: FirnOptions,
  ) {}

  static async start(options: FirnOptions = {}): Promise<Firn> {
    const firn = new Firn(mkdtempSync(join(tmpdir(), 'firn-e2e-')), options);
    await firn.go();
    return firn;
  }

  /** Folder of `fs` repositories. */
  get repositories(): string {
    return join(this.folder, 'repositories');
  }

  /** Starts again after `kill`, on the same port with the same data. */
  async go(): Promise<void> {
    const ready = join(this.folder, 'ready');
    rmSync(ready, { force: true });
    const settings: Record<string, string> = {
      'path.repo': this.repositories,
      // The default is a share of the disk, and the disk of a machine that runs tests may be nearly full.
      'cluster.routing.allocation.disk.watermark.flood_stage': '100mb',
      ...this.options.settings,
    };
    if (this.options.security) {
      const file = join(this.folder, 'password');
      writeFileSync(file, `${OPERATOR.password}\n`, { mode: 0o600 });
      settings['operator.password_file'] = file;
    }
    settings['xpack.security.enabled'] ??= String(this.options.security ?? false);
    const environment = Object.fromEntries(Object.entries(process.env).filter(([name]) => !name.startsWith('FIRN_')));
    this.child = spawn(
      firnBinary(),
      [
        'serve',
        ...['--port', String(this.port)],
        ...['--data', join(this.folder, 'data')],
        ...['--ready-file', ready],
        ...Object.entries(settings).flatMap(([name, value]) => ['-E', `${name}=${value}`]),
      ],
      { env: environment, stdio: ['ignore', 'pipe', 'pipe'] },
    );
    const keep = (chunk: Buffer) => (this.log = (this.log + chunk.toString()).slice(-20_000));
    this.child.stdout?.on('data', keep);
    this.child.stderr?.on('data', keep);
    const until = Date.now() + START_MS_MAX;
    while (!existsSync(ready) || readFileSync(ready, 'utf8').trim() === '') {
      if (this.child.exitCode !== null || Date.now() > until) throw new Error(`firn did not start:\n${this.log}`);
      await new Promise((done) => setTimeout(done, 20));
    }
    this.url = readFileSync(ready, 'utf8').trim();
    this.port = Number(new URL(this.url).port);
  }

  /** Kills the process, like a power cut. */
  async kill(): Promise<void> {
    await this.end('SIGKILL');
  }

  /** Stops it and removes its data. */
  async stop(): Promise<void> {
    await this.end('SIGTERM');
    rmSync(this.folder, { recursive: true, force: true });
  }

  private async end(signal: NodeJS.Signals): Promise<void> {
    const { child } = this;
    this.child = null;
    if (!child || child.exitCode !== null) return;
    const exited = once(child, 'exit');
    child.kill(signal);
    await exited;
  }

  /** Sends a request and returns the JSON of the response. Throws with the server's text if the response is not 2xx. */
  async ask<T = unknown>(method: string, path: string, body?: unknown, who: Account | null = this.options.security ? OPERATOR : null): Promise<T> {
    const isText = typeof body === 'string';
    const response = await fetch(this.url + path, {
      method,
      headers: {
        ...(body !== undefined && { 'content-type': isText ? 'application/x-ndjson' : 'application/json' }),
        ...(who && { authorization: `Basic ${Buffer.from(`${who.username}:${who.password}`).toString('base64')}` }),
      },
      ...(body !== undefined && { body: isText ? body : JSON.stringify(body) }),
    });
    const text = await response.text();
    if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${text}`);
    return (text.startsWith('{') || text.startsWith('[') ? JSON.parse(text) : text) as T;
  }

  /** Appends events to an index or data stream and makes them searchable. */
  async index(name: string, events: object[]): Promise<void> {
    const lines = events.map((event) => `{"create":{}}\n${JSON.stringify(event)}\n`);
    const { errors, items } = await this.ask<{ errors: boolean; items: unknown[] }>('POST', `/${name}/_bulk?refresh=true`, lines.join(''));
    if (errors) throw new Error(`not all of ${events.length} events were indexed: ${JSON.stringify(items).slice(0, 2000)}`);
  }

  /** Creates data stream `name` with events of `firn generate`, which are equal for equal arguments. */
  async generate(name: string, { kind = 'events', events, days = 7, tenants = 3, seed = 1 }: Generated): Promise<void> {
    const generate = (args: string[]) => execFileSync(firnBinary(), ['generate', '--kind', kind, ...args], { encoding: 'utf8', maxBuffer: 1 << 30 });
    const template = JSON.parse(generate(['--template'])) as { template: object };
    await this.ask('PUT', `/_index_template/${name}`, {
      ...template,
      index_patterns: [name],
      data_stream: {},
      template: { ...template.template, settings: { 'index.tenant.field': 'tenant' } },
    });
    const counts = ['--events', String(events), '--days', String(days), '--tenants', String(tenants), '--seed', String(seed)];
    const body = generate([...counts, '--format', 'bulk', '--index', name]);
    const { errors } = await this.ask<{ errors: boolean }>('POST', '/_bulk?refresh=true', body);
    if (errors) throw new Error('not all generated events were indexed');
  }

  /** Creates a tenant with one user. */
  async addTenant(id: string, account: Account, role: 'tenant_reader' | 'tenant_admin' = 'tenant_reader'): Promise<void> {
    await this.ask('PUT', `/_firn/tenants/${id}`, { quotas: {} });
    await this.ask('PUT', `/_security/user/${account.username}`, { password: account.password, roles: [role], metadata: { tenant: id } });
  }
}

interface Generated {
  kind?: 'events' | 'weblog';
  events: number;
  /** They end now. */
  days?: number;
  /** `tenant-001` is the largest. */
  tenants?: number;
  seed?: number;
}
