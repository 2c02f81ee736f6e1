/** A server in front of Tidelake that answers some requests itself and passes on the others. */
import http from 'node:http';
import type { AddressInfo } from 'node:net';

export interface Front {
  url: string;
  close: () => Promise<void>;
}

/** `answer` returns whether it answers a request. */
export async function front(
  target: string,
  answer: (request: http.IncomingMessage, response: http.ServerResponse) => boolean,
): Promise<Front> {
  const server = http.createServer((request, response) => {
    if (answer(request, response)) return;
    const { method, headers, url = '/' } = request;
    const passed = http.request(new URL(url, target), { method, headers }, (from) => {
      response.writeHead(from.statusCode ?? 502, from.headers);
      from.pipe(response);
    });
    passed.on('error', () => response.destroy());
    response.on('close', () => passed.destroy());
    request.pipe(passed);
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}
