/** The page Live, with the figures of a node that the test plays; queries and connections are those of the server. */
import type { Page } from '@playwright/test';
import { FakeNode } from './figures';
import { front } from './front';
import { command, expect, expectAccessible, expectNoSideScroll, faultsOf, shot, test as base } from './support';

const test = base.extend<{ node: FakeNode; live: Page }>({
  node: async ({}, use) => {
    const node = new FakeNode();
    await use(node);
    node.close();
  },
  live: async ({ page, server, node }, use) => {
    const faults = faultsOf(page);
    const between = await front(server.url, (request, response) => node.answer(request, response));
    await page.goto(`${between.url}/#/live`);
    await expect(page.getByText('Connected', { exact: true })).toBeVisible();
    await use(page);
    await between.close();
    expect(faults).toEqual([]);
  },
});

const tabs = ['Overview', 'Queries', 'Store', 'Nodes', 'Log'] as const;

for (const colorScheme of ['light', 'dark'] as const) {
  for (const width of [1360, 375]) {
    test(`in the ${colorScheme} theme at ${width} px`, async ({ live, node }) => {
      await live.emulateMedia({ colorScheme });
      await live.setViewportSize({ width, height: width === 375 ? 760 : 860 });
      node.log(40);
      for (const tab of tabs) {
        await live.getByRole('tab', { name: tab }).click();
        if (tab === 'Overview') await expect(live.getByRole('region', { name: 'Rows written by protocol' })).toContainText('400');
        if (tab === 'Queries') await expect(live.getByRole('region', { name: 'Connections' }).getByRole('row').nth(1)).toBeVisible();
        if (tab === 'Nodes') await expect(live.getByRole('region', { name: 'Nodes' }).getByRole('row').nth(1)).toContainText('127.0.0.1');
        if (tab === 'Log') await expect(live.getByRole('log')).toContainText('line 40');
        await expectAccessible(live);
        await shot(live, `live-${tab.toLowerCase()}-${colorScheme}-${width}`);
        await expectNoSideScroll(live);
      }
    });
  }
}

test('rates, memory and costs are those of the figures', async ({ live }) => {
  const chart = (name: string) => live.getByRole('region', { name });
  await expect(chart('Rows written by protocol').getByRole('listitem')).toHaveText(['influxdb400', 'sql100']);
  await expect(chart('Rows written by table')).toContainText('home.climate400');
  await expect(chart('Requests to the store')).toContainText('get10');
  await expect(live.getByText('50 % of 2')).toBeVisible();
  await expect(live.getByRole('region', { name: 'Memory' })).toContainText('98 %');
  await expect(live.getByRole('note').filter({ hasText: 'Warning: the oldest row of the log is 95 s old' })).toContainText(
    'docs/operations/lag.md',
  );

  await live.getByRole('tab', { name: 'Store' }).click();
  // (2 PUT + 1 LIST) × 2 592 000 s × 0.005 / 1 000 + 10 GET × 2 592 000 s × 0.0004 / 1 000
  await expect(live.getByText('Estimate: 49.25 USD a month')).toBeVisible();
  await live.getByLabel('Price of PUT and LIST').fill('0');
  await expect(live.getByText('Estimate: 10.37 USD a month')).toBeVisible();
  await live.reload();
  await expect(live.getByLabel('Price of PUT and LIST')).toHaveValue('0');
  await live.getByRole('button', { name: 'Prices of S3 Standard, us-east-1' }).click();
  await expect(live.getByText('Estimate: 49.25 USD a month')).toBeVisible();
});

test('the log is filtered, paused and bounded', async ({ live, node }) => {
  await command(live, 'live: show log');
  const log = live.getByRole('log');
  const lines = log.locator('.log-line');
  node.log(10);
  await expect(lines).toHaveText([/line 2/, /line 4/, /WARN.*line 5 table=climate rows=5/, /line 6/, /line 8/, /WARN.*line 10/]);
  await live.getByRole('combobox', { name: 'Level' }).selectOption('WARN');
  await expect(lines).toHaveText([/line 5 table=climate rows=5/, /line 10/]);
  await live.getByRole('searchbox', { name: 'Words in the line' }).fill('rows=10');
  await expect(lines).toHaveText([/line 10/]);
  expect(live.url()).toContain('level=WARN');
  await live.getByRole('combobox', { name: 'Level' }).selectOption('DEBUG');
  await live.getByRole('searchbox', { name: 'Words in the line' }).fill('');
  await expect(lines).toHaveCount(10);
  await live.getByRole('button', { name: 'Pause' }).click();
  node.log(1500);
  await expect(live.getByRole('button', { name: 'Continue (1\u202f500 new)' })).toBeVisible();
  await expect(lines).toHaveCount(10);
  await live.getByRole('button', { name: /Continue/ }).click();
  await expect(lines).toHaveCount(1000);
  await expect(lines.last()).toContainText('line 1510');

  // The server sends only the wanted lines, so that the page keeps more of them: 200 of the last 1 000 lines, then 600 of 3 000.
  await live.getByRole('combobox', { name: 'Level' }).selectOption('WARN');
  await expect.poll(() => node.queries.at(-1)?.get('level')).toBe('warn');
  await expect(live.getByText('200 of 200 lines')).toBeVisible();
  node.log(3000);
  await expect(lines).toHaveCount(800);
  await live.getByRole('searchbox', { name: 'Words in the line' }).fill('rows=4510');
  await expect.poll(() => node.queries.at(-1)?.get('words')).toBe('rows=4510');
  await expect(lines).toHaveText([/line 4510/]);
});

test('a narrower filter keeps lines; a paused log and a stopped page ask for none', async ({ live, node }) => {
  await command(live, 'live: show log');
  const log = live.getByRole('log');
  const lines = log.locator('.log-line');
  const level = live.getByRole('combobox', { name: 'Level' });
  const words = live.getByRole('searchbox', { name: 'Words in the line' });
  const asked = (name: string) => expect.poll(() => node.queries.at(-1)?.get(name) ?? '');
  /** Longer than the page waits for the end of typing. */
  const typed = () => live.waitForTimeout(1000);
  await level.selectOption('WARN');
  await asked('level').toBe('warn');
  node.log(3000);
  await expect(live.getByText('600 of 600 lines')).toBeVisible();
  // The node selects among its last 1 000 lines, which line 1505 is not one of.
  await words.fill('rows=1505');
  await asked('words').toBe('rows=1505');
  await expect(live.getByText('1 of 1 lines')).toBeVisible();
  await expect(lines).toHaveText([/line 1505/]);
  await words.fill('');
  await asked('words').toBe('');
  await expect(live.getByText('201 of 201 lines')).toBeVisible();
  await expect(lines.first()).toContainText('line 1505');
  await expect(lines.last()).toContainText('line 3000');

  await live.getByRole('button', { name: 'Pause' }).click();
  let streams = node.queries.length;
  await level.selectOption('DEBUG');
  await typed();
  expect(node.queries.length).toBe(streams);
  await expect(lines).toHaveCount(201);
  await words.fill('rows=2999');
  await expect(log).toHaveText('The log is paused; Continue loads the lines');
  await words.fill('');
  await live.getByRole('button', { name: /^Continue/ }).click();
  await asked('level').toBe('debug');
  await expect(lines).toHaveCount(1000);
  await expect(lines.first()).toContainText('line 2001');

  await live.getByRole('button', { name: 'Stop', exact: true }).click();
  await expect.poll(() => node.open.size).toBe(0);
  streams = node.queries.length;
  await words.fill('no line has this');
  await expect(log).toHaveText('The page is stopped; Continue loads the lines');
  await typed();
  expect(node.queries.length).toBe(streams);
  await live.getByRole('button', { name: 'Continue', exact: true }).click();
  await asked('words').toBe('no line has this');
  await expect(log).toContainText('No line has this level and these words');
  await expect(live.getByText('Connected', { exact: true })).toBeVisible();
});

test('a stream that breaks is shown and comes back; it is closed while nobody sees it', async ({ live, node }) => {
  expect(node.open.size).toBe(1);
  node.break();
  await expect(live.getByText(/Connection lost, next attempt in/)).toBeVisible();
  await shot(live, 'live-broken');
  node.mend();
  await expect(live.getByText('Connected', { exact: true })).toBeVisible();

  const visible = (state: 'visible' | 'hidden') =>
    live.evaluate((value) => {
      Object.defineProperty(document, 'visibilityState', { value, configurable: true });
      document.dispatchEvent(new Event('visibilitychange'));
    }, state);
  await visible('hidden');
  await expect.poll(() => node.open.size).toBe(0);
  await visible('visible');
  await expect.poll(() => node.open.size).toBe(1);
  await live.getByRole('button', { name: 'Stop', exact: true }).click();
  await expect.poll(() => node.open.size).toBe(0);
  await live.getByRole('button', { name: 'Continue', exact: true }).click();
  await expect.poll(() => node.open.size).toBe(1);
  await command(live, 'go to query');
  await expect.poll(() => node.open.size).toBe(0);
  await command(live, 'go to live');
  await expect.poll(() => node.open.size).toBe(1);
});

test('the memory of the page stays bounded', async ({ live, node }) => {
  const devtools = await live.context().newCDPSession(live);
  const heap = async (): Promise<number> => {
    await devtools.send('HeapProfiler.collectGarbage');
    return ((await devtools.send('Runtime.getHeapUsage')) as { usedSize: number }).usedSize;
  };
  const half = async (until: number) => {
    for (let part = 0; part < 10; part++) {
      node.play(100);
      node.log(500);
    }
    await live.getByRole('tab', { name: 'Log' }).click();
    await expect(live.getByRole('log')).toContainText(`line ${until}`);
    await live.getByRole('tab', { name: 'Overview' }).click();
    await expect(live.getByRole('region', { name: 'Rows written by protocol' })).toBeVisible();
  };
  await half(4998);
  const before = await heap();
  await half(9998);
  await half(14_998);
  expect((await heap()) - before).toBeLessThan(3_000_000);
});

test('a slow query is killed after its statement was shown', async ({ live, server }) => {
  const slow = 'SELECT sum(a.value + b.value) FROM range(0, 100000000) a, range(0, 1000000) b';
  const ended = server.sql(slow).then(
    () => 'answered',
    (error: unknown) => String(error),
  );
  await live.getByRole('tab', { name: 'Queries' }).click();
  const row = live.getByRole('region', { name: 'Running queries' }).getByRole('row').filter({ hasText: slow });
  await expect(row).toBeVisible();
  await row.getByRole('button', { name: /^Kill the query/ }).click();
  const dialog = live.getByRole('dialog', { name: 'Kill this query?' });
  await expect(dialog).toContainText(slow);
  await expect(dialog.getByRole('button', { name: 'Cancel' })).toBeFocused();
  await expectAccessible(live);
  await shot(live, 'live-kill');
  await dialog.getByRole('button', { name: 'Kill the query' }).click();
  await expect(row).toHaveCount(0);
  expect(await ended).toContain('killed');
});

test('a connection is killed', async ({ live, server }) => {
  await live.getByRole('tab', { name: 'Queries' }).click();
  const connections = live.getByRole('region', { name: 'Connections' });
  await expect(connections.getByRole('row').nth(1)).toBeVisible();
  const [first] = await server.sql('SELECT id FROM system.connections ORDER BY requests DESC LIMIT 1');
  const id = String(first?.[0]);
  await connections.getByRole('button', { name: `Kill the connection ${id}`, exact: true }).click();
  await live.getByRole('button', { name: 'Kill the connection', exact: true }).click();
  await expect
    .poll(async () => (await server.sql('SELECT id FROM system.connections')).map(([one]) => String(one)))
    .not.toContain(id);
});
