/** What requests to a store cost a month. An estimate: without storage, transfer and free quotas. */

/** USD per 1 000 requests. */
export interface Prices {
  /** PUT and LIST. */
  write: number;
  /** GET and HEAD. */
  read: number;
}

/** S3 Standard in us-east-1. */
export const standard: Prices = { write: 0.005, read: 0.0004 };

/** Deleting is free. */
const priceOf: Record<string, keyof Prices> = { put: 'write', list: 'write', get: 'read', head: 'read' };

const secondsOfMonth = 30 * 86_400;

export interface Cost {
  kind: string;
  /** Requests a second. */
  rate: number;
  /** USD a month of 30 days. */
  month: number;
}

/** The cost of each kind of request at these rates. */
export function costsOf(rates: ReadonlyMap<string, number | null>, prices: Prices): Cost[] {
  return [...rates].map(([kind, rate]) => {
    const price = priceOf[kind];
    const requests = (rate ?? 0) * secondsOfMonth;
    return { kind, rate: rate ?? 0, month: price === undefined ? 0 : (requests / 1000) * prices[price] };
  });
}

export function totalOf(costs: readonly Cost[]): number {
  return costs.reduce((sum, cost) => sum + cost.month, 0);
}

/** A price as somebody typed it; `null` if it is none. */
export function parsePrice(text: string): number | null {
  const value = Number(text.trim());
  return text.trim() !== '' && Number.isFinite(value) && value >= 0 ? value : null;
}

const key = 'tidelake.prices';

export function loadPrices(): Prices {
  try {
    const stored = JSON.parse(localStorage.getItem(key) ?? '{}') as Partial<Prices>;
    return {
      write: parsePrice(String(stored.write)) ?? standard.write,
      read: parsePrice(String(stored.read)) ?? standard.read,
    };
  } catch {
    return standard;
  }
}

export function storePrices(prices: Prices): void {
  localStorage.setItem(key, JSON.stringify(prices));
}
