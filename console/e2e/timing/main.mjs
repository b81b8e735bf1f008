// How long it takes in a real browser from pressing Enter to the first row on screen, and how long the page's main thread
// computes for it: the first depends on what else the machine does, the second hardly.
//
// usage: node e2e/timing/main.mjs --url URL [--index NAME] [--tenants A,B] [--days 1,7,14,21,28] [--repeats 20]
//                                 [--field tenant] [--user NAME:PASSWORD] [--json FILE]
//
// Without --tenants it takes the one with the most events and the one in the middle. Each repetition asks a question that
// was never asked (other bounds of time), and then the same one once more.
import { execFileSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { parseArgs } from 'node:util';
import { chromium } from 'playwright-core';

const DAY_MS = 86_400_000;
/** Completion has come and gone when Enter is pressed: people read what they typed. */
const SETTLE_MS = 400;
/** A run that waits longer than this says so and ends. */
const ANSWER_MS_MAX = 30_000;
/** Asked before any counts: code is compiled, connections are open. */
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
if (!options.url) throw new Error('--url names the server');
const server = options.url.replace(/\/$/, '');

async function search(body) {
  const headers = { 'content-type': 'application/json', ...(options.user && { authorization: `Basic ${Buffer.from(options.user).toString('base64')}` }) };
  const response = await fetch(`${server}/${options.index}/_search`, { method: 'POST', headers, body: JSON.stringify(body) });
  if (!response.ok) throw new Error(`${response.status} ${await response.text()}`);
  return response.json();
}

/** The tenants to ask for, and when the newest event was. */
async function prepare() {
  const { aggregations } = await search({ size: 0, aggs: { newest: { max: { field: '@timestamp' } }, tenants: { terms: { field: options.field, size: 10_000 } } } });
  const all = aggregations.tenants.buckets;
  if (all.length === 0) throw new Error(`no event of ${options.index} has a ${options.field}`);
  const events = new Map(all.map(({ key, doc_count: count }) => [key, count]));
  const names = options.tenants?.split(',') ?? [all[0].key, all[Math.floor(all.length / 2)].key];
  return { newestMs: aggregations.newest.value, tenants: names.map((name) => ({ name, events: events.get(name) ?? 0 })) };
}

/** In the page: the time from the next Enter to the frame that has the rows of its answer. */
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
        // A task behind the frame: it has been painted.
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

/** Milliseconds that the page's main thread has computed since `Performance.enable`, by what: all tasks, scripts, styles, layout. */
async function computed(session) {
  const { metrics } = await session.send('Performance.getMetrics');
  const seconds = new Map(metrics.map(({ name, value }) => [name, value]));
  return ['TaskDuration', 'ScriptDuration', 'RecalcStyleDuration', 'LayoutDuration'].map((name) => (seconds.get(name) ?? Number.NaN) * 1000);
}

/** Asks as a reader does; how long it took, and what the main thread computed until the row was there. */
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
  // Time that the thread was on a core: what it waits for one belongs to others.
  await session.send('Performance.enable', { timeDomain: 'threadTicks' });
  let signedIn = !options.user;
  // No two questions of a run have the same bounds.
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

console.log('From Enter to the first row on screen, ms; what the main thread computed of it, medians:\n');
console.log('| tenant | events | days | new: median | p95 | computed | of it scripts | repeated: median | p95 | computed |');
console.log('|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|');
for (const { tenant, events, days, new: asked, repeated } of rows) {
  const thread = asked.main_thread;
  console.log(`| ${tenant} | ${events} | ${days} | ${asked.median_ms} | ${asked.p95_ms} | ${thread.task_ms} | ${thread.script_ms} | ${repeated.median_ms} | ${repeated.p95_ms} | ${repeated.main_thread.task_ms} |`);
}
