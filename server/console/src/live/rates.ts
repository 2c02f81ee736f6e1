/** Rates a second, from two answers of a node. */
import type { NodeFigures } from '../api/node';

export interface Rates {
  /** Seconds between the answers. */
  seconds: number;
  /** Rows written, by protocol. */
  protocols: Map<string, number | null>;
  /** Rows written, by `database.table`. */
  tables: Map<string, number | null>;
  queries: Map<string, number | null>;
  /** Requests to the store, by kind. */
  store: Map<string, number | null>;
  /** The fraction of all processors that is used. */
  processor: number | null;
}

/** `null` where a total is unknown or has become smaller. */
function rate(before: number | null | undefined, now: number | null, seconds: number): number | null {
  if (before === null || before === undefined || now === null || now < before) return null;
  return (now - before) / seconds;
}

/** `missing`: the total of a name that the answer before does not have. */
function rates(
  before: ReadonlyMap<string, number>,
  now: ReadonlyMap<string, number>,
  seconds: number,
  missing: number | null,
): Map<string, number | null> {
  return new Map([...now].map(([name, total]) => [name, rate(before.get(name) ?? missing, total, seconds)]));
}

/** An answer with this number of tables may lack others. */
const mostTables = 100;

function protocolsOf(node: NodeFigures): Map<string, number> {
  return new Map(
    node.protocols.flatMap(({ protocol, rows_total: total }) =>
      total === null ? [] : [[protocol, total] as const],
    ),
  );
}

function tablesOf(node: NodeFigures): Map<string, number> {
  return new Map(node.tables.map((one) => [`${one.database}.${one.table}`, one.rows_total]));
}

function queriesOf(node: NodeFigures): Map<string, number> {
  return new Map([
    ['ended', node.queries.ended_total],
    ['refused', node.queries.refused_total],
  ]);
}

/**
 * The rates between two answers; `null` if the process was started in between, since its totals began at 0 again, or if no
 * time has passed.
 */
export function ratesOf(before: NodeFigures, now: NodeFigures): Rates | null {
  const seconds = now.uptime_seconds - before.uptime_seconds;
  if (before.started !== now.started || seconds <= 0) return null;
  const used = rate(before.process.processor_seconds, now.process.processor_seconds, seconds);
  return {
    seconds,
    protocols: rates(protocolsOf(before), protocolsOf(now), seconds, 0),
    tables: rates(tablesOf(before), tablesOf(now), seconds, before.tables.length < mostTables ? 0 : null),
    queries: rates(queriesOf(before), queriesOf(now), seconds, 0),
    store: rates(
      new Map(Object.entries(before.store.requests)),
      new Map(Object.entries(now.store.requests)),
      seconds,
      0,
    ),
    processor: used === null ? null : used / (now.process.processors ?? 1),
  };
}
