import { defineConfig } from '@playwright/test';

// TIDELAKE_BIN       the server's binary (required)
// TIDELAKE_DOCS     the directory docs of the repository
// CONSOLE_SHOTS      a directory for screenshots (none are kept by default)
// CHROMIUM           the browser, by default that of Debian
export default defineConfig({
  testDir: '.',
  outputDir: process.env['CONSOLE_RESULTS'] ?? './test-results',
  timeout: 120_000,
  expect: { timeout: 30_000 },
  workers: 1,
  forbidOnly: true,
  reporter: 'list',
  use: {
    browserName: 'chromium',
    viewport: { width: 1360, height: 860 },
    timezoneId: 'UTC',
    actionTimeout: 30_000,
    launchOptions: {
      executablePath: process.env['CHROMIUM'] ?? '/usr/bin/chromium',
      args: [
        '--headless',
        '--no-sandbox',
        '--disable-gpu',
        '--disable-quic',
        '--no-first-run',
        '--disable-background-networking',
        '--disable-component-update',
        '--disable-sync',
      ],
    },
  },
});
