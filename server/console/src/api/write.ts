/** `POST /write`: line protocol. */
import { send } from './http';

export type Precision = 's' | 'ms' | 'us' | 'ns';

export async function write(database: string, precision: Precision, lines: string): Promise<void> {
  await send(`/write?db=${encodeURIComponent(database)}&precision=${precision}`, {
    method: 'POST',
    headers: { 'content-type': 'text/plain; charset=utf-8' },
    body: lines,
  });
}
