/** `POST /api/v1/check`: the check of every object of the root. */
import { send } from './http';

export interface Finding {
  key: string;
  what: string;
  expected?: string;
  found?: string;
}

export interface CheckReport {
  version: number;
  versions: number;
  segments: number;
  files: number;
  rows: number;
  bytes: number;
  faults: Finding[];
  notes: Finding[];
  /** Number of findings that are not listed. */
  more: number;
}

/** With `rows`, the rows of data files are read. Aborting the signal ends the check on the server. */
export async function checkRoot(rows: boolean, signal: AbortSignal): Promise<CheckReport> {
  const response = await send(`/api/v1/check?rows=${rows}`, { method: 'POST', signal });
  return (await response.json()) as CheckReport;
}
