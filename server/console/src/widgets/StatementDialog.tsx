/** Asks before a statement runs: what it does, the statement itself, and its error if it fails. */
import type { ComponentChildren, JSX } from 'preact';
import { useState } from 'preact/hooks';
import { toApiError, type ApiError } from '../api/errors';
import { rows, type Value } from '../api/sql';
import { Dialog } from './Dialog';
import { ErrorNotice } from './Notice';

/** A statement, and how it is shown: without its passwords. */
export interface Prepared {
  sql: string;
  shown: string;
}

export function prepared(sql: string): Prepared {
  return { sql, shown: sql };
}

export interface Question {
  title: string;
  /** `null` while the form is not complete. */
  statement: Prepared | null;
  /** The text of the button that runs it. */
  action: string;
  danger?: boolean;
  /** A name that must be typed first. */
  typed?: string;
  /** What the statement does, and the form that makes it. */
  children?: ComponentChildren;
  onDone: (data: Value[][]) => void;
}

export function StatementDialog(props: Question & { onClose: () => void }): JSX.Element {
  const { title, statement, action, danger = false, typed, children, onDone, onClose } = props;
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<ApiError | null>(null);
  const [words, setWords] = useState('');
  const ready = statement !== null && !busy && (typed === undefined || words === typed);

  const run = async (close: () => void) => {
    if (!ready) return;
    setBusy(true);
    setError(null);
    try {
      const data = await rows({ sql: statement.sql });
      close();
      onDone(data);
    } catch (thrown) {
      setError(toApiError(thrown));
      setBusy(false);
    }
  };

  return (
    <Dialog title={title} onClose={onClose}>
      {(close) => (
        <form
          class="dialog-form"
          onSubmit={(event) => {
            event.preventDefault();
            void run(close);
          }}
        >
          {children}
          <pre class="statement" tabIndex={0} aria-label="Statement">
            {statement?.shown ?? 'The statement is shown here when the form is complete.'}
          </pre>
          {typed !== undefined && (
            <label class="field">
              Type <strong>{typed}</strong> to confirm
              <input
                value={words}
                autocomplete="off"
                onInput={(event) => setWords(event.currentTarget.value)}
              />
            </label>
          )}
          {error && <ErrorNotice error={error} />}
          <div class="dialog-actions">
            <button type="button" class="button" autofocus={danger && typed === undefined} onClick={close}>
              Cancel
            </button>
            <button type="submit" class={danger ? 'button danger' : 'button primary'} disabled={!ready}>
              {busy ? 'Running…' : action}
            </button>
          </div>
        </form>
      )}
    </Dialog>
  );
}
