/** Memory of the page Live: no test of `./tests/run`, but a part of `tests/long`. */
import { add, ingest, record } from './report';
import { expect, test } from './support';

test.afterEach(({ browser }) => record('The page Live of the console', browser.version()));
test.use({ file: 'measure' });

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
