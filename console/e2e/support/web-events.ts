/** Web access logs with ECS names, deterministic except for the time. */

/** Client that probes paths: the subject of the default dashboard panels. */
export const SCANNER = '203.0.113.66';

const PATHS = ['/', '/login', '/cart', '/products/17', '/api/orders', '/static/app.js'];
const PROBES = ['/wp-login.php', '/.env', '/phpmyadmin/index.php', '/.git/config', '/backup.zip', '/admin.php'];
const COUNTRIES = ['DE', 'FR', 'US', 'PL', 'NL', 'JP', 'BR'];
const AGENTS = ['Firefox', 'Chrome', 'Safari', 'Edge', 'curl'];

export const WEB_TEMPLATE = {
  index_patterns: ['web-*'],
  priority: 300,
  data_stream: {},
  template: {
    settings: { 'index.tenant.field': 'tenant' },
    mappings: {
      properties: {
        '@timestamp': { type: 'date' },
        tenant: { type: 'keyword' },
        http: { properties: { response: { properties: { status_code: { type: 'long' } } } } },
        url: { properties: { path: { type: 'keyword' } } },
        source: { properties: { ip: { type: 'ip' }, geo: { properties: { country_iso_code: { type: 'keyword' } } } } },
        user_agent: { properties: { name: { type: 'keyword' } } },
        message: { type: 'text' },
      },
    },
  },
};

/** Returns `count` requests over the last `hours`, oldest first; every fifth is a failed probe of the scanner. */
export function webEvents(count: number, { hours = 24, tenant = 'acme' }: { hours?: number; tenant?: string } = {}): object[] {
  const end = Date.now() - 60_000;
  const step = (hours * 3_600_000) / count;
  const pick = <T>(from: readonly T[], at: number): T => from[at % from.length] as T;
  return Array.from({ length: count }, (_, at) => {
    const scanner = at % 5 === 4;
    // Strides that are coprime to the lengths: all values occur, the first ones more often.
    const draw = (at * 7 + ((at * at) % 11)) % 97;
    const status = scanner ? 404 : draw < 78 ? 200 : draw < 86 ? 302 : draw < 93 ? 403 : 500;
    const path = scanner ? pick(PROBES, Math.floor(at / 5) % 9 < 6 ? 0 : Math.floor(at / 5)) : pick(PATHS, draw % 4 === 0 ? 0 : draw);
    return {
      '@timestamp': new Date(end - (count - at) * step).toISOString(),
      tenant,
      http: { response: { status_code: status } },
      url: { path },
      source: { ip: scanner ? SCANNER : `198.51.100.${(draw * 3) % 40}`, geo: { country_iso_code: scanner ? 'KP' : pick(COUNTRIES, draw % 3 === 0 ? 0 : draw) } },
      user_agent: { name: scanner ? 'zgrab/0.x' : pick(AGENTS, draw % 5 < 2 ? 0 : draw) },
      message: `GET ${path} ${status}`,
    };
  });
}
