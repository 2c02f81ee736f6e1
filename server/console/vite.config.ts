import { defineConfig } from 'vite';

// The server of development that `npm run dev` forwards the API to.
const server = process.env['TIDELAKE_URL'] ?? 'http://127.0.0.1:8086';
const api = ['/api', '/write', '/metrics', '/health'];

export default defineConfig({
  base: './',
  esbuild: { jsx: 'automatic', jsxImportSource: 'preact', legalComments: 'none' },
  build: {
    target: 'es2022',
    modulePreload: { polyfill: false },
    // Inlined assets would need `data:` in more directives of the content security policy.
    assetsInlineLimit: 0,
    sourcemap: false,
  },
  server: { proxy: Object.fromEntries(api.map((path) => [path, server])) },
});
