/** Times of the console's pages, beside the limits that they are held to: no test of `./tests/run`, but a part of `tests/long`. */
import http from 'node:http';
import { chromium, type Browser, type Page } from '@playwright/test';
import { add, ingest, median, percentile, record } from './report';
import { drag, expect, test, type } from './support';

test.afterEach(({ browser }) => record('The console in a browser', browser.version()));
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
        await drag(site, from, to, 20);
      }
      await plot.focus();
      for (let step = 0; step < 3; step++) await site.keyboard.press('+');
      await site.keyboard.press('-');
    }
  });
  add('Longest frame in 30 drags and 40 keys that zoom 100 000 points', frames, 'ms', 50, Math.max(...frames));
  add('Frame while zooming, 99th percentile', frames, 'ms', null, percentile(frames, 0.99));
});

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
