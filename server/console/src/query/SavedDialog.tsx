/** The dialogs that save, rename and delete a saved query. */
import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { toApiError, type ApiError } from '../api/errors';
import { Dialog } from '../widgets/Dialog';
import { Field } from '../widgets/Fields';
import { ErrorNotice } from '../widgets/Notice';
import { loadSaved, remove, rename, save, saved, type SavedAction } from './saved';

const titles = { save: 'Save the statement', rename: 'Rename', delete: 'Delete' } as const;

export function SavedDialog(props: {
  action: SavedAction;
  /** Receives the name that the query has now, `null` after it was deleted, and its name before. */
  onDone: (name: string | null, before: string) => void;
  onClose: () => void;
}): JSX.Element {
  const { action, onDone, onClose } = props;
  const [name, setName] = useState(action.kind === 'save' ? action.name : action.query.name);
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<ApiError | null>(null);
  const trimmed = name.trim();
  const replaced = (saved.value ?? []).find((one) => one.name === trimmed);
  const isTaken = action.kind === 'rename' && replaced !== undefined;
  const ready = !busy && trimmed !== '' && !isTaken;

  const run = async (close: () => void) => {
    if (action.kind !== 'delete' && !ready) return;
    setBusy(true);
    setError(null);
    try {
      if (action.kind === 'save') await save(trimmed, action.statement, action.database, replaced);
      else if (action.kind === 'rename') await rename(action.query, trimmed);
      else await remove(action.query);
      onDone(action.kind === 'delete' ? null : trimmed, action.kind === 'save' ? '' : action.query.name);
      close();
    } catch (thrown) {
      setError(toApiError(thrown));
      setBusy(false);
      // What changed meanwhile is what the next attempt replaces.
      await loadSaved();
    }
  };

  const isReplacing = action.kind === 'save' && replaced !== undefined;
  const label = action.kind === 'save' ? (isReplacing ? 'Replace' : 'Save') : titles[action.kind];
  return (
    <Dialog title={titles[action.kind]} onClose={onClose}>
      {(close) => (
        <form
          class="dialog-form"
          onSubmit={(event) => {
            event.preventDefault();
            void run(close);
          }}
        >
          {action.kind === 'delete' ? (
            <p>
              Delete the saved query <strong>{action.query.name}</strong>? The statement in the editor stays.
            </p>
          ) : (
            <Field
              label="Name"
              value={name}
              onChange={setName}
              required
              hint={
                isTaken
                  ? 'Another saved query has this name.'
                  : isReplacing
                    ? 'This replaces the saved query of this name.'
                    : 'At most 128 bytes'
              }
            />
          )}
          {error && <ErrorNotice error={error} />}
          <div class="dialog-actions">
            <button type="button" class="button" autofocus={action.kind === 'delete'} onClick={close}>
              Cancel
            </button>
            <button
              type="submit"
              class={action.kind === 'delete' ? 'button danger' : 'button primary'}
              disabled={action.kind === 'delete' ? busy : !ready}
            >
              {busy ? 'Working…' : label}
            </button>
          </div>
        </form>
      )}
    </Dialog>
  );
}
