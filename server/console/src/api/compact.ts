/** `POST /api/v1/compact`: folds and merges of all tables, now. */
import { send } from './http';

export type Until = 'fold' | 'due' | 'full';

export interface Compacted {
  segments: number;
  folded_rows: number;
  merged_files: number;
  merged_rows: number;
  files: number;
  bytes: number;
  duplicates: number;
  expired_rows: number;
  expired_partitions: number;
}

export async function compact(until: Until): Promise<Compacted> {
  const response = await send(`/api/v1/compact?until=${until}`, { method: 'POST' });
  return (await response.json()) as Compacted;
}
