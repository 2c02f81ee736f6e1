/** Imports a file: a preview whose columns can be corrected, the upload, and what it wrote. */
import type { JSX } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { isAbort, toApiError, type ApiError } from '../api/errors';
import {
  formatOf,
  formats,
  preview,
  upload,
  type Format,
  type Imported,
  type ImportOptions,
  type Preview,
} from '../api/import';
import * as tree from '../catalog/tree';
import { counted, formatBytes, formatValue } from '../chart/units';
import { route } from '../shell/route';
import { Choice } from '../widgets/Choice';
import { Check, Field } from '../widgets/Fields';
import { Icon } from '../widgets/icons';
import { Empty, ErrorNotice, Loading } from '../widgets/Notice';
import { namesOf } from './corrections';
import { databaseNames } from './dialogs';
import { ImportDone } from './ImportDone';
import { PreviewTable } from './PreviewTable';

const formatNames: readonly (readonly [Format, string])[] = formats.map((format) => [
  format,
  { csv: 'CSV', ndjson: 'NDJSON', line: 'Line protocol', parquet: 'Parquet' }[format],
]);

const precisions = [
  ['ns', 'Nanoseconds'],
  ['us', 'Microseconds'],
  ['ms', 'Milliseconds'],
  ['s', 'Seconds'],
] as const;

/** A name of a table from that of a file. */
function tableOf(name: string): string {
  return name
    .replace(/\.(gz|zst)$/i, '')
    .replace(/\.[^.]*$/, '')
    .toLowerCase()
    .replace(/[^a-z0-9_]+/g, '_')
    .replace(/^_+|_+$/g, '');
}

/** Milliseconds after the last change before a preview is requested. */
const typing = 300;

/** A preview, and the columns that its request omits. */
interface Shown {
  shown: Preview | null;
  omitted: readonly string[];
}

/** The names of the omitted columns as text, which a correction in the table below changes, too. */
function Omitted(props: { names: readonly string[]; onChange: (names: string[]) => void }): JSX.Element {
  const [text, setText] = useState('');
  const names = props.names.join(',');
  return (
    <Field
      label="Columns to omit"
      value={namesOf(text).join(',') === names ? text : names}
      onChange={(next) => {
        setText(next);
        props.onChange(namesOf(next));
      }}
      hint="Names, separated by commas"
    />
  );
}

export function ImportPanel({ file, pick }: { file: File | null; pick: () => void }): JSX.Element {
  if (!file) {
    return (
      <Empty title="Drop a file here">
        <p>
          CSV, NDJSON, line protocol or Parquet. The page shows what the server makes of its columns before
          anything is written.
        </p>
        <p class="empty-actions">
          <button type="button" class="button primary" onClick={pick}>
            <Icon name="upload" /> Choose a file
          </button>
        </p>
      </Empty>
    );
  }
  return <Chosen file={file} />;
}

function Chosen({ file }: { file: File }): JSX.Element {
  const { parameters } = route.value;
  const [options, setOptions] = useState<ImportOptions>({
    database: parameters.get('db') ?? databaseNames()[0] ?? 'home',
    table: parameters.get('table') ?? tableOf(file.name),
    format: formatOf(file.name) ?? 'csv',
    tags: null,
    time: null,
    precision: 'ns',
    nulls: [],
    types: new Map(),
    omitted: [],
    overwrite: false,
  });
  const [{ shown, omitted }, setShown] = useState<Shown>({ shown: null, omitted: [] });
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<ApiError | null>(null);
  const [sent, setSent] = useState<number | null>(null);
  const [done, setDone] = useState<Imported | null>(null);
  const [attempt, setAttempt] = useState(0);
  const stop = useRef(new AbortController());
  const lines = options.format === 'line';
  const named = options.database !== '' && (lines || options.table !== '');
  const key = JSON.stringify([options, [...options.types]]);

  // Each correction is the server's to judge, so it asks for the preview again.
  useEffect(() => {
    if (!named) return;
    const abort = new AbortController();
    setBusy(true);
    const timer = setTimeout(() => {
      preview(file, options, abort.signal).then(
        (found) => {
          setShown({ shown: found, omitted: options.omitted });
          setError(null);
          setBusy(false);
        },
        (thrown: unknown) => {
          if (isAbort(thrown)) return;
          setError(toApiError(thrown));
          setBusy(false);
        },
      );
    }, typing);
    return () => {
      clearTimeout(timer);
      abort.abort();
    };
  }, [key, attempt]);
  useEffect(() => () => stop.current.abort(), []);

  const put = (part: Partial<ImportOptions>) => setOptions({ ...options, ...part });
  const timed = lines || (shown?.columns.some((column) => column.role === 'time') ?? false);
  const wrong = shown?.rows_wrong ?? 0;
  const ready =
    wrong === 0 && named && timed && !busy && error === null && (!shown?.repeats || options.overwrite);
  const send = async () => {
    stop.current = new AbortController();
    setSent(0);
    setError(null);
    try {
      setDone(await upload(file, options, setSent, stop.current.signal));
      void tree.reload();
    } catch (thrown) {
      if (!isAbort(thrown)) setError(toApiError(thrown));
    }
    setSent(null);
  };

  if (done) {
    return <ImportDone done={done} database={options.database} table={lines ? '' : options.table} />;
  }
  return (
    <div class="import">
      <p>
        <strong>{file.name}</strong>, {formatBytes(file.size)}
      </p>
      <div class="form-row">
        <Choice
          label="Format"
          value={options.format}
          options={formatNames}
          onChange={(format) => put({ format, tags: null, time: null, types: new Map(), omitted: [] })}
        />
        <Field
          label="Into the database"
          value={options.database}
          suggestions={databaseNames()}
          onChange={(database) => put({ database })}
        />
        {!lines && (
          <Field
            label="Into the table"
            value={options.table}
            onChange={(table) => put({ table })}
            hint={shown?.table_exists ? 'This table exists: its columns are used' : ''}
          />
        )}
        {options.format !== 'parquet' && (
          <Choice
            label="Unit of numeric times"
            value={options.precision}
            options={precisions}
            onChange={(precision) => put({ precision })}
          />
        )}
        {!lines && (
          <Field
            label="Text that means null"
            value={options.nulls[0] ?? ''}
            onChange={(text) => put({ nulls: text === '' ? [] : [text] })}
            hint="Such as N/A; an empty cell of CSV is always null"
          />
        )}
        {!lines && <Omitted names={options.omitted} onChange={(omitted) => put({ omitted })} />}
      </div>
      {options.format !== 'parquet' && (
        <p class="hint">
          Assumed: times that are numbers count{' '}
          {precisions.find(([unit]) => unit === options.precision)?.[1].toLowerCase()} since 1970
          {!lines && '; times as text without a zone are UTC'}.
        </p>
      )}
      {!named && <p role="status">Name the database{lines ? '' : ' and the table'}.</p>}
      {error && <ErrorNotice error={error} retry={() => setAttempt(attempt + 1)} />}
      {shown?.notices.map((notice) => (
        <p class="result-note" key={notice}>
          {notice}
        </p>
      ))}
      {shown?.repeats && (
        <div class="notice notice-warning" role="alert">
          <Icon name="warning" />
          <div>
            <p class="notice-title">
              {shown.repeats.rows} rows have the series and the time of another row: {shown.repeats.example}
            </p>
            <p>{shown.repeats.hint}</p>
            <Check
              label="Import them: the last row of each series and time counts"
              value={options.overwrite}
              onChange={(overwrite) => put({ overwrite })}
            />
          </div>
        </div>
      )}
      {wrong > 0 && (
        <p role="status">
          {counted(wrong, 'row')} cannot be read, so that the server would write nothing: correct a type, the
          unit of times or the text that means null.
        </p>
      )}
      {shown && !timed && <p role="status">Choose the role time for the column with the times.</p>}
      {!shown && busy && <Loading text="Reading the file" />}
      {shown && (
        <PreviewTable
          preview={shown}
          omitted={omitted}
          busy={busy}
          options={options}
          fixed={shown.table_exists || lines}
          onChange={put}
        />
      )}
      <div class="actions">
        {sent === null ? (
          <button type="button" class="button primary" disabled={!ready} onClick={() => void send()}>
            <Icon name="upload" /> Import
          </button>
        ) : (
          <>
            <progress value={sent} aria-label="Sent" />
            <span role="status">
              {sent < 1 ? `Sent ${formatValue(sent, 'ratio', 2)}` : 'Sent; the server writes the rows'}
            </span>
            <button type="button" class="button danger" onClick={() => stop.current.abort()}>
              Cancel
            </button>
          </>
        )}
      </div>
    </div>
  );
}
