/** `GET /api/v1/queries/{id}/events`: the work of a running statement, and how it ended. */
import { events } from './events';

export interface Progress {
  id: string;
  state: 'waiting' | 'running' | 'stalled' | 'planning' | 'done' | 'cancelled' | 'killed' | 'failed';
  elapsed_ms: number;
  /** Rows sent. */
  rows: number;
  rows_read: number;
  rows_to_read: number;
  bytes_read: number;
  requests: number;
  error?: { kind: string; message: string };
}

/** Random, so that no other running statement has it. */
export function newQueryId(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(12));
  return `console-${[...bytes].map((byte) => byte.toString(16).padStart(2, '0')).join('')}`;
}

/** Follows a statement; returns its end, or `null` if the stream ended before. */
export async function follow(
  id: string,
  signal: AbortSignal,
  onProgress: (progress: Progress) => void,
): Promise<Progress | null> {
  for await (const group of events(`/api/v1/queries/${encodeURIComponent(id)}/events`, signal)) {
    const last = group.at(-1);
    if (last === undefined) continue;
    const progress = JSON.parse(last.data) as Progress;
    if (last.name === 'end') return progress;
    onProgress(progress);
  }
  return null;
}
