/** What a server without readable data shows: how to send a first line, and sample data. */
import type { JSX } from 'preact';
import { grants } from '../access/access';
import { session } from '../api/session';
import * as tree from '../catalog/tree';
import { linkTo } from '../shell/route';
import { CopyButton } from '../widgets/CopyButton';
import { useLoaded } from '../widgets/loaded';
import { Empty, Loading } from '../widgets/Notice';
import { SampleButton } from './SampleButton';
import { sampleDatabase, sampleHosts } from './sample';

export function FirstStart(): JSX.Element {
  const current = session.value;
  if (current?.user && !current.admin) return <WithoutRead user={current.user} />;
  return (
    <Empty title="This server has no data yet">
      <p>Send a first line. The database and the table are created with it:</p>
      <FirstLine database="home" />
      <p>
        Or <a href={linkTo('data', new URLSearchParams({ tab: 'import' }))}>import a file</a>, or begin with a
        day of metrics of {sampleHosts} generated hosts, in the database {sampleDatabase}:
      </p>
      <p class="empty-actions">
        <SampleButton primary />
      </p>
    </Empty>
  );
}

/** A request that writes one line. */
function FirstLine({ database }: { database: string }): JSX.Element {
  const token = session.value?.authentication ? ' -H "authorization: Bearer $TIDELAKE_TOKEN"' : '';
  const line = `curl -sS${token} '${location.origin}/write?db=${encodeURIComponent(database)}' --data-binary 'climate,room=kitchen temperature=21.5'`;
  return (
    <>
      <pre tabIndex={0}>{line}</pre>
      <p class="empty-actions">
        <CopyButton label="Copy" text={() => line} />
        <button type="button" class="button" onClick={() => void tree.reload()}>
          Look again
        </button>
      </p>
    </>
  );
}

/** A user who may read nothing may still write: what is possible depends on the rights. */
function WithoutRead({ user }: { user: string }): JSX.Element {
  const { value, error } = useLoaded((signal) => grants('', signal), user);
  if (!value && !error) return <Loading text="Loading your rights" />;
  const all = value?.items ?? [];
  const writes = all.filter((grant) => grant.privilege !== 'READ').map((grant) => grant.database);
  const reads = all.some((grant) => grant.privilege !== 'WRITE');
  const database = writes.find((name) => name !== '*') ?? 'home';
  if (writes.length === 0) {
    return (
      <Empty title={reads ? 'No database yet that you may read' : 'No database that you may read'}>
        <p>
          {reads
            ? 'You may read databases, but none exists yet. Ask an administrator to create one.'
            : 'Ask an administrator for a right, or to create the database:'}
        </p>
        {!reads && <pre tabIndex={0}>GRANT READ ON home.* TO {user}</pre>}
      </Empty>
    );
  }
  return (
    <Empty title={reads ? 'This server has no data yet' : 'You may write, but not read'}>
      <p>
        You may write to{' '}
        {writes.map((name) => (name === '*' ? 'every database, also a new one' : name)).join(', ')}. Send a
        line with <a href={linkTo('access', new URLSearchParams({ tab: 'tokens' }))}>a token</a>:
      </p>
      <FirstLine database={database} />
      {!reads && (
        <>
          <p>To see what you have written, ask an administrator for the right to read:</p>
          <pre tabIndex={0}>
            GRANT READ ON {database}.* TO {user}
          </pre>
        </>
      )}
    </Empty>
  );
}
