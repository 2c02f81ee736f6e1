import { defineConfig } from '@playwright/test';
import tests from './playwright.config';

// CONSOLE_URL        a server with the rows of `tidelake-loadtest write`
// CONSOLE_REPORT     the directory for report.md and report.json
// CONSOLE_MINUTES    how long the page Live is open (30)
export default defineConfig({ ...tests, testMatch: '*.measure.ts', timeout: 7_200_000 });
