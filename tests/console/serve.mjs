// Serves server/console/dist with the security policy of the console, and forwards all other requests to a server.
// Needed only while the binary does not serve `/`: with CONSOLE_SERVED=1 the tests use the binary's own assets.
import { createReadStream, existsSync, statSync } from 'node:fs';
import http from 'node:http';
import path from 'node:path';

const policy =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; font-src 'self'; " +
  "manifest-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'";
const types = { '.html': 'text/html; charset=utf-8', '.js': 'text/javascript', '.css': 'text/css', '.svg': 'image/svg+xml' };
const dist = path.resolve(import.meta.dirname, '../../server/console/dist');

/** Listens on a free port; resolves to the address and a function that stops. */
export function serve(target) {
  const upstream = new URL(target);
  const server = http.createServer((request, response) => {
    const name = new URL(request.url, 'http://console').pathname;
    const file = path.join(dist, name === '/' ? 'index.html' : name);
    if (request.method === 'GET' && file.startsWith(dist) && existsSync(file) && statSync(file).isFile()) {
      response.writeHead(200, {
        'content-type': types[path.extname(file)] ?? 'application/octet-stream',
        'content-security-policy': policy,
        'x-content-type-options': 'nosniff',
      });
      createReadStream(file).pipe(response);
      return;
    }
    const forwarded = http.request(
      { host: upstream.hostname, port: upstream.port, method: request.method, path: request.url, headers: request.headers },
      (answer) => {
        response.writeHead(answer.statusCode, answer.headers);
        answer.pipe(response);
      },
    );
    forwarded.on('error', () => response.destroy());
    // A client that goes away ends its query.
    response.on('close', () => forwarded.destroy());
    request.pipe(forwarded);
  });
  return new Promise((resolve) => {
    server.listen(0, '127.0.0.1', () => {
      const stop = () => new Promise((done) => { server.close(done); server.closeAllConnections(); });
      resolve({ url: `http://127.0.0.1:${server.address().port}`, stop });
    });
  });
}
