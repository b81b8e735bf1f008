// Benchmark in a real browser: time from pressing Enter to the first row on screen, and CPU time of the page's main
// thread.
// The first depends on other load of the machine, the second hardly.
//
// usage: node e2e/timing/main.mjs --url URL [--index NAME] [--tenants A,B] [--days 1,7,14,21,28] [--repeats 20]
//                                 [--field tenant] [--user NAME:PASSWORD] [--json FILE]
//
// Without --tenants it uses the tenant with the most events and the median one. Each repetition sends a new request
// (with
// another time range), and then the same one once more.
import { execFileSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { chromium } from 'playwright-core';

const DAY_MS = 86_400_000;
/** Delay before Enter, in which completion finishes: users read what they typed. */
const SETTLE_MS = 400;
/** Timeout of a response; a longer wait fails the run. */
const ANSWER_MS_MAX = 30_000;
/** Repetitions before the measurement: they compile code and open connections. */
const WARM_UP = 2;

const { values: options } = parseArgs({
  options: {
    url: { type: 'string' },
    index: { type: 'string', default: 'events' },
    field: { type: 'string', default: 'tenant' },
    tenants: { type: 'string' },
    days: { type: 'string', default: '1,7,14,21,28' },
    repeats: { type: 'string', default: '20' },
    user: { type: 'string' },
    json: { type: 'string' },
  },
});
if (!options.url) throw new Error('--url is required');
const server = options.url.replace(/\/$/, '');

async function search(body) {
  const headers = { 'content-type': 'application/json', ...(options.user && { authorization: `Basic ${Buffer.from(options.user).toString('base64')}` }) };
  const response = await fetch(`${server}/${options.index}/_search`, { method: 'POST', headers, body: JSON.stringify(body) });
  if (!response.ok) throw new Error(`${response.status} ${await response.text()}`);
  return response.json();
}

/** Returns the tenants to search, and the time of the newest event. */
async function prepare() {
  const { aggregations } = await search({ size: 0, aggs: { newest: { max: { field: '@timestamp' } }, tenants: { terms: { field: options.field, size: 10_000 } } } });
  const all = aggregations.tenants.buckets;
  if (all.length === 0) throw new Error(`no event of ${options.index} has a ${options.field}`);
  const events = new Map(all.map(({ key, doc_count: count }) => [key, count]));
  const names = options.tenants?.split(',') ?? [all[0].key, all[Math.floor(all.length / 2)].key];
  return { newestMs: aggregations.newest.value, tenants: names.map((name) => ({ name, events: events.get(name) ?? 0 })) };
}

/** Runs in the page: measures the time from the next Enter to the frame with the rows of its response. */
function watch() {
  window.firnTiming = new Promise((resolve, reject) => {
    const table = document.querySelector('[data-events]');
    if (!table) return reject(new Error('there is no table of events'));
    let pressed = null;
    let busy = false;
    const observer = new MutationObserver(() => {
      if (pressed === null) return;
      if (table.getAttribute('aria-busy') === 'true') busy = true;
      else if (busy && table.querySelector('[role=row][aria-rowindex], [data-index]')) {
        observer.disconnect();
        // In a task after the frame, which has then been painted.
        requestAnimationFrame(() => setTimeout(() => resolve(performance.now() - pressed)));
      }
    });
    observer.observe(table, { attributes: true, attributeFilter: ['aria-busy'] });
    const onKey = (event) => {
      if (event.key !== 'Enter') return;
      pressed = event.timeStamp;
      document.removeEventListener('keydown', onKey, true);
    };
    document.addEventListener('keydown', onKey, true);
  });
}

/**
 * Returns the CPU milliseconds of the page's main thread since `Performance.enable`: all tasks, scripts, styles,
 * layout.
 */
async function computed(session) {
  const { metrics } = await session.send('Performance.getMetrics');
  const seconds = new Map(metrics.map(({ name, value }) => [name, value]));
  return ['TaskDuration', 'ScriptDuration', 'RecalcStyleDuration', 'LayoutDuration'].map((name) => (seconds.get(name) ?? Number.NaN) * 1000);
}

/** Runs a query like a user. Returns the elapsed time, and the CPU time of the main thread until the first row. */
async function ask(page, session, text) {
  const editor = page.locator('[data-query][contenteditable]');
  await editor.click();
  if (text !== null) {
    await page.keyboard.press('ControlOrMeta+a');
    await page.keyboard.insertText(text);
  }
  await page.waitForTimeout(SETTLE_MS);
  await page.evaluate(watch);
  const before = await computed(session);
  await page.keyboard.press('Enter');
  const late = new Promise((_, reject) => setTimeout(() => reject(new Error(`no rows within ${ANSWER_MS_MAX} ms: ${text}`)), ANSWER_MS_MAX).unref());
  const screen = await Promise.race([page.evaluate(() => window.firnTiming), late]);
  const [task, script, style, layout] = (await computed(session)).map((ms, at) => ms - before[at]);
  return { screen, task, script, style, layout };
}

const percentile = (sorted, share) => sorted[Math.min(sorted.length - 1, Math.ceil(sorted.length * share) - 1)];

function summary(all) {
  const sorted = [...all].sort((left, right) => left - right);
  const round = (value) => Math.round(value * 10) / 10;
  return { count: sorted.length, median_ms: round(percentile(sorted, 0.5)), p95_ms: round(percentile(sorted, 0.95)), max_ms: round(sorted.at(-1)) };
}

const { newestMs, tenants } = await prepare();
const executablePath = process.env.CHROMIUM ?? execFileSync('/bin/sh', ['-c', 'command -v chromium'], { encoding: 'utf8' }).trim();
const browser = await chromium.launch({ executablePath, headless: true });
const rows = [];
try {
  const context = await browser.newContext({ viewport: { width: 1440, height: 900 }, timezoneId: 'UTC', reducedMotion: 'reduce' });
  const page = await context.newPage();
  const session = await context.newCDPSession(page);
  // CPU time of the thread, without waiting for a core.
  await session.send('Performance.enable', { timeDomain: 'threadTicks' });
  let signedIn = !options.user;
  // No two requests of a run have the same time range.
  let step = 0;
  for (const { name, events } of tenants) {
    for (const days of options.days.split(',').map(Number)) {
      const text = () => `${options.field}: "${name}" and @timestamp <= ${newestMs - step++ * 1009}`;
      const bounds = [newestMs - days * DAY_MS, newestMs].map((ms) => new Date(ms).toISOString()).join(',');
      await page.goto(`${server}/app/discover?${new URLSearchParams({ i: options.index, t: bounds, q: text() })}`);
      if (!signedIn) {
        const [username, ...password] = options.user.split(':');
        await page.getByLabel('Username').fill(username);
        await page.getByLabel(/^Password/).fill(password.join(':'));
        await page.getByRole('button', { name: 'Sign in', exact: true }).click();
        signedIn = true;
      }
      await page.locator('[data-events] [data-index]').first().waitFor({ timeout: 60_000 });
      await page.locator('[data-query][contenteditable]').waitFor();
      const [asked, again] = [[], []];
      for (let round = 0; round < WARM_UP + Number(options.repeats); round += 1) {
        const times = [await ask(page, session, text()), await ask(page, session, null)];
        if (round >= WARM_UP) [asked, again].forEach((list, at) => list.push(times[at]));
      }
      const medians = (all) => Object.fromEntries(['task', 'script', 'style', 'layout'].map((part) => [`${part}_ms`, summary(all.map((one) => one[part])).median_ms]));
      const timed = (all) => ({ ...summary(all.map(({ screen }) => screen)), main_thread: medians(all) });
      const row = { tenant: name, events, days, new: timed(asked), repeated: timed(again) };
      rows.push(row);
      process.stderr.write(`${name}, ${days} days: ${row.new.p95_ms} ms\n`);
    }
  }
  const report = { url: server, index: options.index, time: new Date().toISOString(), browser: `Chromium ${browser.version()}`, repeats: Number(options.repeats), rows };
  if (options.json) writeFileSync(options.json, `${JSON.stringify(report, null, 2)}\n`);
} finally {
  await browser.close();
}

console.log('From Enter to the first row on screen, ms; median CPU time of the main thread:\n');
console.log('| tenant | events | days | new: median | p95 | CPU | scripts | repeated: median | p95 | CPU |');
console.log('|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|');
for (const { tenant, events, days, new: asked, repeated } of rows) {
  const thread = asked.main_thread;
  console.log(`| ${tenant} | ${events} | ${days} | ${asked.median_ms} | ${asked.p95_ms} | ${thread.task_ms} | ${thread.script_ms} | ${repeated.median_ms} | ${repeated.p95_ms} | ${repeated.main_thread.task_ms} |`);
}
