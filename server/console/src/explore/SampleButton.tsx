/** Loads sample data, and shows its chart. */
import type { JSX } from 'preact';
import { useRef, useState } from 'preact/hooks';
import { toApiError, type ApiError } from '../api/errors';
import { write } from '../api/write';
import * as tree from '../catalog/tree';
import { useCommands } from '../shell/commands';
import { ErrorNotice } from '../widgets/Notice';
import { choose, update } from './choose';
import { factsOf } from './data';
import { linesOf, sampleDatabase, sampleHosts, sampleTable } from './sample';

export function SampleButton({ primary = false }: { primary?: boolean }): JSX.Element {
  const [done, setDone] = useState<number | null>(null);
  const [error, setError] = useState<ApiError | null>(null);

  const load = async () => {
    setError(null);
    try {
      const end = Math.floor(Date.now() / 1000);
      for (let host = 0; host < sampleHosts; host++) {
        setDone(host);
        await write(sampleDatabase, 's', linesOf(host, end));
      }
      const facts = await factsOf(sampleDatabase, sampleTable);
      const view = choose(sampleDatabase, sampleTable, facts);
      await tree.reload();
      update({ ...view, group: 'region', unit: 'percent' });
    } catch (thrown) {
      setError(toApiError(thrown));
    }
    setDone(null);
  };

  const latest = useRef(load);
  latest.current = load;
  useCommands(() => [{ name: 'Load sample data', run: () => void latest.current() }]);

  return (
    <>
      <button
        type="button"
        class={primary ? 'button primary' : 'button'}
        disabled={done !== null}
        onClick={() => void load()}
      >
        {done === null ? 'Load sample data' : `Writing host ${done + 1} of ${sampleHosts}…`}
      </button>
      {error && <ErrorNotice error={error} />}
    </>
  );
}
