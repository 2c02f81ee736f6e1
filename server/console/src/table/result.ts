/** A result in columns, as tables, charts and exports see it. The implementation for Arrow is loaded when it is needed. */
import type { Zone } from '../chart/instant';

export type Kind = 'number' | 'time' | 'text' | 'boolean' | 'other';

export interface ResultColumn {
  name: string;
  /** The type as in SQL. */
  type: string;
  kind: Kind;
}

export interface Result {
  readonly columns: readonly ResultColumn[];
  readonly rowCount: number;
  /** The text of a cell with all its digits; `null` for NULL. */
  text(row: number, column: number, zone: Zone): string | null;
  /** The number of a cell, or the milliseconds of an instant; `null` for NULL and for texts. */
  number(row: number, column: number): number | null;
}

/** What is known of an answer while it arrives. */
export interface Progress {
  result: Result;
  bytes: number;
}

export interface Answer {
  /** The ID of the query, for KILL QUERY. */
  id: string | null;
  notice: string | null;
}
