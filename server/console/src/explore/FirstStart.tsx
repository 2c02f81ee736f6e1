/** What an empty server shows: how to send a first line, and sample data. */
import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { toApiError, type ApiError } from '../api/errors';
import { session } from '../api/session';
import { write } from '../api/write';
import * as tree from '../catalog/tree';
import { CopyButton } from '../widgets/CopyButton';
import { Empty, ErrorNotice } from '../widgets/Notice';
import { choose, update } from './Explore';
import { linesOf, sampleDatabase, sampleHosts, sampleTable } from './sample';

export function FirstStart(): JSX.Element {
  const [done, setDone] = useState<number | null>(null);
  const [error, setError] = useState<ApiError | null>(null);
  const current = session.value;
  const token = current?.authentication ? ' -H "authorization: Bearer $TIDELAKE_TOKEN"' : '';
  const line = `curl -sS${token} '${location.origin}/write?db=home' --data-binary 'climate,room=kitchen temperature=21.5'`;

  const load = async () => {
    setError(null);
    try {
      const end = Math.floor(Date.now() / 1000);
      for (let host = 0; host < sampleHosts; host++) {
        setDone(host);
        await write(sampleDatabase, 's', linesOf(host, end));
      }
      const view = await choose(sampleDatabase, sampleTable);
      await tree.reload();
      update({ ...view, group: 'region', unit: 'percent' });
    } catch (thrown) {
      setError(toApiError(thrown));
    }
    setDone(null);
  };

  if (current?.user && !current.admin) {
    return (
      <Empty title="No database that you may read">
        <p>Ask an administrator for a right, or to create the database:</p>
        <pre>GRANT READ ON home.* TO {current.user}</pre>
      </Empty>
    );
  }
  return (
    <Empty title="This server has no data yet">
      <p>Send a first line. The database and the table are created with it:</p>
      <pre tabIndex={0}>{line}</pre>
      <p class="empty-actions">
        <CopyButton label="Copy" text={() => line} />
        <button type="button" class="button" onClick={() => void tree.reload()}>
          Look again
        </button>
      </p>
      <p>
        Or begin with a day of metrics of {sampleHosts} generated hosts, in the database {sampleDatabase}:
      </p>
      <p class="empty-actions">
        <button type="button" class="button primary" disabled={done !== null} onClick={() => void load()}>
          {done === null ? 'Load sample data' : `Writing host ${done + 1} of ${sampleHosts}…`}
        </button>
      </p>
      {error && <ErrorNotice error={error} />}
    </Empty>
  );
}
