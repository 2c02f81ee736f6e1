/** Downloads the result as a file. */
import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { toApiError, type ApiError } from '../api/errors';
import { exported, type ExportFormat, type Statement } from '../api/sql';
import { Menu } from '../widgets/Menu';
import { ErrorNotice } from '../widgets/Notice';

const formats: readonly (readonly [ExportFormat, string])[] = [
  ['csv', 'CSV'],
  ['parquet', 'Parquet'],
  ['arrow', 'Arrow IPC stream'],
  ['json', 'JSON'],
  ['ndjson', 'NDJSON'],
];

/** Whether running a statement again changes nothing. */
export function isQuery(sql: string): boolean {
  return /^(\s|--.*\n|\/\*[\s\S]*?\*\/|\()*(select|with|values|from|show|describe|desc|explain)\b/i.test(sql);
}

function download(blob: Blob, name: string): void {
  const link = document.createElement('a');
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

export function ExportMenu({ statement }: { statement: Statement }): JSX.Element | null {
  const [busy, setBusy] = useState<ExportFormat | null>(null);
  const [error, setError] = useState<ApiError | null>(null);
  if (!isQuery(statement.sql)) return null;
  const save = async (format: ExportFormat) => {
    setBusy(format);
    setError(null);
    try {
      download(await exported(statement, format), `tidelake.${format}`);
    } catch (thrown) {
      setError(toApiError(thrown));
    }
    setBusy(null);
  };
  return (
    <Menu label="Export" text={busy ? `Exporting ${busy}…` : 'Export'} icon="download" align="end">
      {() => (
        <div class="export">
          <p class="tree-foot">The statement runs again, without the limit of rows.</p>
          {formats.map(([format, name]) => (
            <button
              key={format}
              type="button"
              class="menu-item"
              disabled={busy !== null}
              onClick={() => void save(format)}
            >
              {name}
            </button>
          ))}
          {error && <ErrorNotice error={error} />}
        </div>
      )}
    </Menu>
  );
}
