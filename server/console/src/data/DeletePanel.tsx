/** Deletes rows by time and tags after counting them, and drops the table. */
import type { JSX } from 'preact';
import { useRef, useState } from 'preact/hooks';
import { toApiError, type ApiError } from '../api/errors';
import { rows } from '../api/sql';
import * as tree from '../catalog/tree';
import { parseInstant, zone } from '../chart/instant';
import { counted as inWords } from '../chart/units';
import { useCommands } from '../shell/commands';
import { change, go, route } from '../shell/route';
import { Choice } from '../widgets/Choice';
import { Field } from '../widgets/Fields';
import { Icon } from '../widgets/icons';
import { ErrorNotice } from '../widgets/Notice';
import type { Data } from './DataPage';
import {
  conditionsFromText,
  conditionsToText,
  countStatement,
  deleteStatement,
  dropTable,
  operators,
  whereOf,
  type Selection,
  type TagCondition,
} from './statements';
import type { TableInfo } from './table';

const mostConditions = 8;

/** An instant of the form as the statement has it; `null` if it is none. */
function instant(text: string): string | null {
  if (text.trim() === '') return '';
  const time = parseInstant(text, zone.value);
  return time === null ? null : new Date(time).toISOString();
}

export function DeletePanel({ info, data }: { info: TableInfo; data: Data }): JSX.Element {
  const { database, table, columns } = info;
  const { parameters } = route.value;
  const from = parameters.get('from') ?? '';
  const until = parameters.get('until') ?? '';
  const conditions = conditionsFromText(parameters.get('where') ?? '').slice(0, mostConditions);
  const setConditions = (next: readonly TagCondition[]) => change({ where: conditionsToText(next) }, true);
  const [counted, setCounted] = useState<{ where: string; rows: number } | null>(null);
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<ApiError | null>(null);
  const [deleted, setDeleted] = useState<number | null>(null);
  const tags = columns.filter((column) => column.role === 'tag').map((column) => column.name);
  const bounds = { from: instant(from), until: instant(until) };
  const selection: Selection | null =
    bounds.from === null || bounds.until === null
      ? null
      : { from: bounds.from, until: bounds.until, tags: conditions };
  const where = selection === null ? '' : whereOf(selection, columns);
  const ready = counted !== null && counted.where === where && selection !== null;

  const count = async () => {
    setBusy(true);
    setError(null);
    setDeleted(null);
    try {
      const found = await rows({ sql: countStatement(database, table, where) });
      setCounted({ where, rows: Number(found[0]?.[0] ?? 0) });
    } catch (thrown) {
      setError(toApiError(thrown));
    }
    setBusy(false);
  };

  const ask = () => {
    if (counted === null) return;
    data.ask({
      title: `Delete ${inWords(counted.rows, 'row')} of ${table}?`,
      statement: deleteStatement(database, table, where),
      action: `Delete ${inWords(counted.rows, 'row')}`,
      danger: true,
      ...(where === '' ? { typed: table } : {}),
      children: (
        <p>
          {where === '' ? 'Deletes all rows of the table. ' : ''}Rows that fit and are written until the
          statement runs are deleted, too. Columns and series stay. The objects keep the rows until a full
          merge and garbage collection: <code>docs/operations/restore.md</code> says how to get them back
          before that.
        </p>
      ),
      onDone: (answer) => {
        setDeleted(Number(answer[0]?.[0] ?? 0));
        setCounted(null);
        data.changed();
      },
    });
  };

  const drop = () =>
    data.ask({
      title: `Drop the table ${table}?`,
      statement: dropTable(database, table),
      action: 'Drop the table',
      danger: true,
      typed: table,
      children: <p>All rows, columns and series of the table are gone for queries and writes.</p>,
      onDone: () => {
        void tree.reload();
        go('data');
      },
    });
  const latest = useRef({ count, drop });
  latest.current = { count, drop };
  useCommands(() => [
    { name: 'Data: count the rows to delete', run: () => void latest.current.count() },
    { name: 'Data: drop the table', run: () => latest.current.drop() },
  ]);

  const hint = `In ${zone.value === 'utc' ? 'UTC' : 'local time'}, such as 2026-01-31 08:00; empty: no bound`;
  const fault = 'This is no time: write 2026-01-31 08:00';
  return (
    <div class="data-panel">
      <h2>Delete rows</h2>
      <div class="form-row">
        <Field
          label="From"
          value={from}
          onChange={(text) => change({ from: text }, true)}
          hint={bounds.from === null ? fault : hint}
        />
        <Field
          label="Until, not included"
          value={until}
          onChange={(text) => change({ until: text }, true)}
          hint={bounds.until === null ? fault : hint}
        />
      </div>
      {conditions.map((condition, index) => (
        <div class="form-row" key={index} role="group" aria-label={`Condition ${index + 1}`}>
          <Choice
            label="Tag"
            value={condition.tag}
            options={tags.map((tag): [string, string] => [tag, tag])}
            onChange={(tag) => setConditions(conditions.with(index, { ...condition, tag }))}
          />
          <Choice
            label="Comparison"
            value={condition.operator}
            options={operators.map((one): [(typeof operators)[number], string] => [one, one])}
            onChange={(operator) => setConditions(conditions.with(index, { ...condition, operator }))}
          />
          <Field
            label="Value"
            value={condition.value}
            onChange={(value) => setConditions(conditions.with(index, { ...condition, value }))}
          />
          <button
            type="button"
            class="button"
            aria-label={`Remove condition ${index + 1}`}
            onClick={() => setConditions(conditions.filter((_, other) => other !== index))}
          >
            Remove
          </button>
        </div>
      ))}
      <div class="actions">
        {tags.length > 0 && (
          <button
            type="button"
            class="button"
            disabled={conditions.length >= mostConditions}
            onClick={() => setConditions([...conditions, { tag: tags[0] ?? '', operator: '=', value: '' }])}
          >
            <Icon name="plus" /> Condition on a tag
          </button>
        )}
        <button
          type="button"
          class="button primary"
          disabled={busy || selection === null}
          onClick={() => void count()}
        >
          {busy ? 'Counting…' : 'Count the rows'}
        </button>
        <button type="button" class="button danger" disabled={!ready || counted.rows === 0} onClick={ask}>
          <Icon name="trash" /> {ready ? `Delete ${inWords(counted.rows, 'row')}` : 'Delete'}
        </button>
      </div>
      <pre class="statement" tabIndex={0} aria-label="Statement of the count">
        {countStatement(database, table, where)}
      </pre>
      {error && <ErrorNotice error={error} />}
      {ready && (
        <p class="result-note" role="status">
          {counted.rows === 0
            ? 'No row fits. Change the times or the conditions.'
            : `Fitting: ${inWords(counted.rows, 'row')}${where === '' ? ': all rows of the table' : ''}.`}
        </p>
      )}
      {deleted !== null && (
        <p class="result-note" role="status">
          Deleted {inWords(deleted, 'row')}.
        </p>
      )}
      <h2>Drop the table</h2>
      <p>Drops the table with its rows, columns and series.</p>
      <div class="actions">
        <button type="button" class="button danger" onClick={drop}>
          <Icon name="trash" /> Drop the table
        </button>
      </div>
    </div>
  );
}
