/** Times and memory of the console's pages, beside the limits that they are held to: no test of `./tests/run`, but a part of `tests/long`. */
import { execFileSync } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import http from 'node:http';
import os from 'node:os';
import path from 'node:path';
import { chromium, type Browser, type Page } from '@playwright/test';
import { expect, test, type } from './support';

/** One row of the report. */
interface Figure {
  name: string;
  /** As measured, in the order of the runs. */
  samples: number[];
  unit: string;
  /** What is compared with the limit. */
  value: number;
  limit: number | null;
}

const figures: Figure[] = [];
const started = new Date().toISOString();

function percentile(samples: readonly number[], share: number): number {
  const sorted = [...samples].sort((a, b) => a - b);
  return sorted[Math.floor(sorted.length * share)] ?? NaN;
}

function median(samples: readonly number[]): number {
  return percentile(samples, 0.5);
}

function add(name: string, samples: number[], unit: string, limit: number | null, value = median(samples)): void {
  figures.push({ name, samples, unit, value, limit });
}

function record(): void {
  const directory = process.env['CONSOLE_REPORT'];
  if (!directory) throw new Error('set CONSOLE_REPORT to the directory for the report');
  mkdirSync(directory, { recursive: true });
  const git = (...words: string[]) => execFileSync('git', words, { encoding: 'utf8' }).trim();
  const conditions = {
    started,
    commit: git('rev-parse', '--short=12', 'HEAD'),
    processor: os.cpus()[0]?.model ?? 'unknown',
    processors: os.cpus().length,
    browser,
  };
  const shown = (value: number) => (value < 100 ? value.toFixed(1) : value.toFixed(0)).replace(/\.0$/, '');
  const lines = [
    '# The console in a browser',
    '',
    `- Started ${conditions.started}, commit \`${conditions.commit}\`.`,
    `- ${conditions.processor}, ${conditions.processors} cores, shared by server, browser (Chromium ${conditions.browser}, headless, without GPU) and clients.`,
    '- `tests/long DIR console`. Times are those of the browser, from the event of the user to the second frame after the change of the page.',
    '- Medians of the runs; of frames and memory the largest value.',
    '',
    '| | measured | limit | runs |',
    '|---|---:|---:|---|',
    ...figures.map(
      ({ name, samples, unit, value, limit }) =>
        `| ${name} | **${shown(value)}** ${unit} | ${limit === null ? '' : `${shown(limit)} ${unit}`} | ${samples.length > 12 ? samples.length : samples.map(shown).join(', ')} |`,
    ),
    '',
  ];
  writeFileSync(path.join(directory, 'report.json'), `${JSON.stringify({ conditions, figures }, null, 1)}\n`);
  writeFileSync(path.join(directory, 'report.md'), lines.join('\n'));
}

let browser = '';
test.beforeAll(({ browser: used }) => void (browser = used.version()));
test.afterEach(record);
test.use({ file: 'measure' });

const loaded = process.env['CONSOLE_URL'] ?? '';

declare global {
  interface Window {
    /** Milliseconds from the beginning of the page to its first table, drawn. */
    interactive: Promise<number>;
    /** Milliseconds from the last click to the chart, drawn. */
    drawn: Promise<number>;
    /** Milliseconds between frames, until `counting` ends. */
    pauses: number[];
    counting: boolean;
  }
}

/** Puts clocks into the next pages. */
async function watch(page: Page): Promise<void> {
  await page.addInitScript(() => {
    /** The time of the second frame after an element with a text is there. */
    const shown = (selector: string, text: RegExp) =>
      new Promise<number>((resolve) => {
        const isThere = () => [...document.querySelectorAll(selector)].some((element) => text.test(element.textContent));
        const end = () => requestAnimationFrame(() => requestAnimationFrame(() => resolve(performance.now())));
        const observer = new MutationObserver(() => {
          if (!isThere()) return;
          observer.disconnect();
          end();
        });
        observer.observe(document, { subtree: true, childList: true, characterData: true });
      });
    window.interactive = shown('[role=treeitem]', /./);
    document.addEventListener(
      'click',
      (event) => {
        window.drawn = shown('.chart', /Windows of .* rows/).then((end) => end - event.timeStamp);
      },
      { capture: true },
    );
  });
}

/** Starts a browser of its own, so that nothing is cached. */
async function launch(): Promise<Browser> {
  const { launchOptions } = test.info().project.use;
  return chromium.launch(launchOptions);
}

/** Waits until compaction has all rows in files, so that it does not run beside the pages. */
async function settled(): Promise<void> {
  const rows = async () => {
    const answer = await fetch(`${loaded}/api/v1/sql`, { method: 'POST', body: 'SELECT sum(rows) FROM system.files' });
    return ((await answer.json()) as { data: number[][] }).data[0]?.[0];
  };
  await expect.poll(rows, { timeout: 300_000, intervals: [1000] }).toBe(1e8);
  await new Promise((resolve) => setTimeout(resolve, 10_000));
}

test('the first page, and the chart of 1e8 rows after a click', async () => {
  await settled();
  const first: number[] = [];
  const chart: number[] = [];
  const again: number[] = [];
  for (let run = 0; run < 7; run++) {
    const own = await launch();
    const page = await own.newPage({ viewport: { width: 1360, height: 860 } });
    await watch(page);
    await page.goto(loaded);
    first.push(await page.evaluate(() => window.interactive));
    const table = page.getByRole('treeitem', { name: /^devices/ });
    await table.click();
    chart.push(await page.evaluate(() => window.drawn));
    // Another click on the same table after a reload: the server has the plan of the statement.
    await page.goto(`${loaded}/#/explore`);
    await page.reload();
    await table.click();
    again.push(await page.evaluate(() => window.drawn));
    await own.close();
  }
  add('First page interactive, new browser', first, 'ms', 1000);
  add('Chart of 1e8 rows after the click on its table, new browser', chart, 'ms', 150);
  add('The same after a reload', again, 'ms', 150);
});

/** The times between frames while something happens, in milliseconds. */
async function framesWhile(page: Page, act: () => Promise<void>): Promise<number[]> {
  await page.evaluate(() => {
    window.pauses = [];
    window.counting = true;
    let last = performance.now();
    const next = (now: number) => {
      window.pauses.push(now - last);
      last = now;
      if (window.counting) requestAnimationFrame(next);
    };
    requestAnimationFrame(next);
  });
  await act();
  return page.evaluate(() => {
    window.counting = false;
    return window.pauses;
  });
}

async function drag(page: Page, from: number, to: number): Promise<void> {
  const box = await page.locator('.plot .u-over').boundingBox();
  if (!box) throw new Error('the chart has no size');
  await page.mouse.move(box.x + box.width * from, box.y + 60);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width * to, box.y + 80, { steps: 20 });
  await page.mouse.up();
}

test('frames while zooming 100 000 points', async ({ site }) => {
  await site.getByRole('link', { name: 'Query' }).click();
  await type(
    site,
    'SELECT to_timestamp_millis(1767225600000 + value * 10) AS t, 100 * sin(value / 500.0) + value % 13 AS v ' +
      'FROM generate_series(0, 99999) ORDER BY value',
  );
  await site.keyboard.press('Control+Enter');
  await expect(site.getByText(/^100\u202f000 rows/)).toBeVisible();
  await site.getByRole('tab', { name: 'Chart' }).click();
  const plot = site.getByRole('img', { name: 'Chart of the result' });
  await expect(plot).toHaveAttribute('data-points', /\d/);
  const frames = await framesWhile(site, async () => {
    for (let round = 0; round < 10; round++) {
      for (const [from, to] of [
        [0.2, 0.8],
        [0.1, 0.7],
        [0.3, 0.9],
      ] as const) {
        await drag(site, from, to);
      }
      await plot.focus();
      for (let step = 0; step < 3; step++) await site.keyboard.press('+');
      await site.keyboard.press('-');
    }
  });
  add('Longest frame in 30 drags and 40 keys that zoom 100 000 points', frames, 'ms', 50, Math.max(...frames));
  add('Frame while zooming, 99th percentile', frames, 'ms', null, percentile(frames, 0.99));
});

/** Writes batches of rows at a rate as long as `until` is not over. Returns the milliseconds to each acknowledgement. */
async function ingest(url: string, rowsPerSecond: number, seconds: number): Promise<number[]> {
  const rows = 5000;
  const begin = Date.now() - 3_600_000;
  const agent = new http.Agent({ keepAlive: true, maxSockets: 8 });
  const send = (body: Buffer) =>
    new Promise<void>((resolve, reject) => {
      const request = http.request(`${url}/write?db=paced&precision=ms`, { method: 'POST', agent }, (answer) => {
        answer.resume();
        answer.on('end', () => (answer.statusCode === 204 ? resolve() : reject(new Error(`status ${answer.statusCode}`))));
      });
      request.on('error', reject);
      request.end(body);
    });
  const bodies = Array.from({ length: 40 }, (_, batch) =>
    Buffer.from(
      Array.from({ length: rows }, (_, row) => `meters,id=m${(batch * rows + row) % 1000} v=${row}i ${begin + batch * rows + row}`).join('\n'),
    ),
  );
  const latencies: number[] = [];
  const pending = new Set<Promise<void>>();
  const count = Math.floor((rowsPerSecond * seconds) / rows);
  const start = performance.now();
  for (let request = 0; request < count; request++) {
    const due = start + (request * rows * 1000) / rowsPerSecond;
    const wait = due - performance.now();
    if (wait > 0) await new Promise((resolve) => setTimeout(resolve, wait));
    // From the planned time: a server that falls behind is not excused.
    const sent: Promise<void> = send(bodies[request % bodies.length] ?? Buffer.of()).then(() => {
      latencies.push(performance.now() - due);
      pending.delete(sent);
    });
    pending.add(sent);
  }
  await Promise.all(pending);
  agent.destroy();
  return latencies;
}

/** Follows a node as the page Live does. Returns what ends it. */
function follow(url: string): () => void {
  const request = http.get(`${url}/api/v1/node/events`, (answer) => answer.resume());
  request.on('error', () => undefined);
  return () => request.destroy();
}

test('50 followers of the node beside 500 000 rows a second', async ({ server }) => {
  await ingest(server.url, 500_000, 10);
  const [without, beside]: [number[], number[]] = [[], []];
  for (let pair = 0; pair < 7; pair++) {
    // The order alternates, so that a machine that gets slower favours neither.
    for (const followers of pair % 2 === 0 ? [0, 50] : [50, 0]) {
      const ends = Array.from({ length: followers }, () => follow(server.url));
      const p99 = percentile(await ingest(server.url, 500_000, 20), 0.99);
      for (const end of ends) end();
      (followers === 0 ? without : beside).push(p99);
    }
  }
  const growth = beside.map((p99, pair) => (p99 / (without[pair] ?? NaN) - 1) * 100);
  add('p99 of acknowledgements, 500 000 rows/s in requests of 5 000', without, 'ms', null);
  add('p99 beside 50 followers of the page Live', beside, 'ms', null);
  add('Growth of p99 by the followers, between the medians', growth, '%', 10, (median(beside) / median(without) - 1) * 100);
});

test('memory of the page Live', async ({ server, page }) => {
  const minutes = Number(process.env['CONSOLE_MINUTES'] ?? '30');
  await page.goto(`${server.url}/#/live`);
  await expect(page.getByRole('heading', { name: 'Live' })).toBeVisible();
  const session = await page.context().newCDPSession(page);
  const heaps: number[] = [];
  for (let minute = 0; minute < minutes; minute++) {
    // Rows arrive meanwhile, so that the rates and the log of the page change.
    await ingest(server.url, 20_000, 60);
    await session.send('HeapProfiler.collectGarbage');
    const { usedSize } = (await session.send('Runtime.getHeapUsage')) as { usedSize: number };
    heaps.push(usedSize / 1e6);
  }
  add(`Heap of the page Live, at most in ${minutes} minutes beside 20 000 rows/s`, heaps, 'MB', 200, Math.max(...heaps));
});
