/** Decodes Arrow IPC streams as they arrive. */
import { RecordBatchReader, type DataType, type RecordBatch, type Schema, type Vector } from 'apache-arrow';
import type { Zone } from '../chart/instant';
import { describe, numberOf, textOf } from './cells';
import { example } from './example';
import type { Progress, Result, ResultColumn } from './result';

class Batches implements Result {
  readonly columns: readonly ResultColumn[];
  rowCount = 0;
  private readonly batches: RecordBatch[] = [];
  private readonly starts: number[] = [];
  /** The batch of the last access: accesses are mostly in order. */
  private current = 0;

  constructor(schema: Schema) {
    this.columns = schema.fields.map((field) => ({ name: field.name, ...describe(field.type as DataType) }));
  }

  push(batch: RecordBatch): void {
    if (batch.numRows === 0) return;
    this.batches.push(batch);
    this.starts.push(this.rowCount);
    this.rowCount += batch.numRows;
  }

  private find(row: number): number {
    let low = 0;
    let high = this.starts.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if ((this.starts[middle] ?? 0) <= row) low = middle;
      else high = middle - 1;
    }
    return low;
  }

  private cell(row: number, column: number): [Vector, number] | null {
    const start = this.starts[this.current];
    const batch = this.batches[this.current];
    if (start === undefined || batch === undefined || row < start || row >= start + batch.numRows) {
      this.current = this.find(row);
    }
    const vector = this.batches[this.current]?.getChildAt(column);
    return vector ? [vector, row - (this.starts[this.current] ?? 0)] : null;
  }

  text(row: number, column: number, zone: Zone): string | null {
    const cell = this.cell(row, column);
    return cell === null ? null : textOf(...cell, zone);
  }

  number(row: number, column: number): number | null {
    const cell = this.cell(row, column);
    return cell === null ? null : numberOf(...cell);
  }
}

/** Yields the growing result after each batch, at least once. */
export async function* decode(response: Response): AsyncGenerator<Progress> {
  if (response.body === null) throw new Error('the answer has no body');
  let bytes = 0;
  const body = response.body.getReader();
  async function* chunks() {
    for (;;) {
      const { done, value } = await body.read();
      if (done) return;
      bytes += value.byteLength;
      yield value;
    }
  }
  const reader = await RecordBatchReader.from(chunks());
  await reader.open();
  const result = new Batches(reader.schema);
  yield { result, bytes };
  for await (const batch of reader) {
    result.push(batch);
    yield { result, bytes };
  }
}

let isWarm = false;

/** Decodes an example, once: browsers compile a function when it is first called, which then takes no time of the first result. */
export async function warmUp(): Promise<void> {
  if (isWarm) return;
  isWarm = true;
  try {
    for await (const { result } of decode(example())) {
      if (result.rowCount > 0) result.columns.forEach((_, column) => result.number(0, column));
    }
  } catch {
    // Results are decoded without it, only later.
  }
}
