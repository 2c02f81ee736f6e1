/** Saves the statement of the editor, opens saved ones: by a list, by commands, by a link. */
import type { JSX } from 'preact';
import { useEffect, useRef } from 'preact/hooks';
import type { SavedQuery } from '../api/saved';
import { useCommands } from '../shell/commands';
import { go, route } from '../shell/route';
import { Menu } from '../widgets/Menu';
import { action, askToSave, loadSaved, opened, saved, savedError } from './saved';
import { SavedDialog } from './SavedDialog';
import { SavedList } from './SavedList';

interface Props {
  text: string;
  database: string;
  /** Puts a saved query into the editor. */
  onOpen: (query: SavedQuery) => void;
}

export function SavedControls(props: Props): JSX.Element {
  const { text, database } = props;
  const all = saved.value;
  const wanted = route.value.parameters.get('saved');
  const found = wanted === null ? undefined : all?.find((query) => query.name === wanted);

  const open = (query: SavedQuery) => {
    opened.value = query.name;
    props.onOpen(query);
    go('query', new URLSearchParams({ saved: query.name }), true);
  };
  const save = () => askToSave(text, database);
  const latest = useRef({ open, save });
  latest.current = { open, save };

  useEffect(() => void loadSaved(), []);
  // The list may arrive later than the link.
  useEffect(() => {
    if (found && found.name !== opened.value) open(found);
  }, [found]);
  useCommands(
    () => [
      { name: 'Save the statement', keys: 'Ctrl S', run: () => latest.current.save() },
      ...(all ?? []).flatMap((query) => [
        { name: `Open the saved query ${query.name}`, run: () => latest.current.open(query) },
        {
          name: `Rename the saved query ${query.name}`,
          run: () => (action.value = { kind: 'rename', query }),
        },
        {
          name: `Delete the saved query ${query.name}`,
          run: () => (action.value = { kind: 'delete', query }),
        },
      ]),
    ],
    [all],
  );

  /** The link of the page names what is open; a deleted query leaves its statement in the editor. */
  const changed = (name: string | null, before: string) => {
    if (name !== null && (action.value?.kind === 'save' || opened.value === before)) opened.value = name;
    else if (opened.value === before) opened.value = '';
    else return;
    go('query', new URLSearchParams(opened.value === '' ? {} : { saved: opened.value }), true);
  };

  return (
    <>
      <button type="button" class="button" title="Ctrl S" disabled={text.trim() === ''} onClick={save}>
        Save
      </button>
      <Menu label="Saved" text="Saved" icon="saved" align="end">
        {(close) => (
          <SavedList
            onOpen={(query) => {
              open(query);
              close();
            }}
            onChange={(kind, query) => {
              close();
              action.value = { kind, query };
            }}
          />
        )}
      </Menu>
      {wanted !== null && !found && (all !== null || savedError.value) && (
        <span class="hint" role="status">
          {all !== null
            ? `You have no saved query ${wanted}: it was renamed or deleted, or it is of another user.`
            : `The saved query ${wanted} cannot be loaded.`}
        </span>
      )}
      {action.value && (
        <SavedDialog action={action.value} onDone={changed} onClose={() => (action.value = null)} />
      )}
    </>
  );
}
