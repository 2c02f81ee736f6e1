/** Folds and merges on request, and what they did. */
import type { JSX } from 'preact';
import { useRef, useState } from 'preact/hooks';
import { compact, type Compacted, type Until } from '../api/compact';
import { toApiError, type ApiError } from '../api/errors';
import { session } from '../api/session';
import { counted, formatBytes } from '../chart/units';
import { useCommands } from '../shell/commands';
import { Dialog } from '../widgets/Dialog';
import { ErrorNotice } from '../widgets/Notice';

const steps: readonly (readonly [Until, string, string])[] = [
  ['fold', 'Fold now', 'Writes the rows of the log of all tables into data files'],
  ['due', 'Merge due', 'Folds, and makes the merges of all tables that are due'],
  ['full', 'Merge everything', 'Folds, and merges the files of each partition of all tables into one run'],
];

/** `onDone` is called when files have changed. */
export function Compaction({ onDone }: { onDone: () => void }): JSX.Element {
  const [busy, setBusy] = useState<Until | null>(null);
  const [result, setResult] = useState<Compacted | null>(null);
  const [error, setError] = useState<ApiError | null>(null);
  const [asked, setAsked] = useState(false);

  const run = async (until: Until) => {
    setBusy(until);
    setError(null);
    setResult(null);
    try {
      setResult(await compact(until));
      onDone();
    } catch (thrown) {
      setError(toApiError(thrown));
    }
    setBusy(null);
  };
  const begin = (until: Until) => {
    if (until === 'full') setAsked(true);
    else void run(until);
  };
  const latest = useRef(begin);
  latest.current = begin;
  useCommands(() =>
    steps.map(([until, name]) => ({ name: `Data: ${name.toLowerCase()}`, run: () => latest.current(until) })),
  );
  if (!session.value?.admin) {
    return (
      <p class="hint">The server folds and merges by itself. Administrators can do so at once from here.</p>
    );
  }
  return (
    <section class="compaction" aria-label="Compaction">
      <div class="actions">
        {steps.map(([until, name, title]) => (
          <button
            key={until}
            type="button"
            class="button"
            title={title}
            disabled={busy !== null}
            onClick={() => begin(until)}
          >
            {busy === until ? `${name}…` : name}
          </button>
        ))}
        <span class="hint">For all tables of this server; it also does so by itself.</span>
      </div>
      {error && <ErrorNotice error={error} />}
      {result && (
        <p class="result-note" role="status">
          {resultText(result)}
        </p>
      )}
      {asked && (
        <Dialog title="Merge everything?" onClose={() => setAsked(false)}>
          {(close) => (
            <div class="dialog-form">
              <p>
                Reads and writes again the files of each partition with more than one run, of all tables.
                Queries give the same rows. It costs time, processor and requests to the store in proportion
                to the data.
              </p>
              <div class="dialog-actions">
                <button type="button" class="button" autofocus onClick={close}>
                  Cancel
                </button>
                <button
                  type="button"
                  class="button primary"
                  onClick={() => {
                    close();
                    void run('full');
                  }}
                >
                  Merge everything
                </button>
              </div>
            </div>
          )}
        </Dialog>
      )}
    </section>
  );
}

export function resultText(result: Compacted): string {
  const parts = [
    result.segments > 0 &&
      `folded ${counted(result.folded_rows, 'row')} of ${counted(result.segments, 'log segment')}`,
    result.merged_files > 0 &&
      `merged ${counted(result.merged_rows, 'row')} of ${counted(result.merged_files, 'file')}`,
    result.files > 0 && `wrote ${counted(result.files, 'file')} with ${formatBytes(result.bytes)}`,
    result.duplicates > 0 && `replaced ${counted(result.duplicates, 'row')} by newer ones`,
    result.expired_partitions > 0 &&
      `deleted ${counted(result.expired_partitions, 'partition')} with ${counted(result.expired_rows, 'row')} that are older than KEEP`,
  ].filter((part) => part !== false);
  if (parts.length === 0) return 'Nothing to do: the log is folded and no merge is due.';
  const text = parts.join('; ');
  return `${text.charAt(0).toUpperCase()}${text.slice(1)}.`;
}
