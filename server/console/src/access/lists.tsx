/** Lists of users, rights and tokens, and what can be done with each entry. */
import type { JSX } from 'preact';
import type { Some } from '../catalog/catalog';
import { formatInstant, zone } from '../chart/instant';
import { counted, formatBytes, formatCount, formatDuration } from '../chart/units';
import { DataTable, type TableColumn } from '../widgets/DataTable';
import { useLoaded } from '../widgets/loaded';
import { ErrorNotice, Loading } from '../widgets/Notice';
import { RowButton } from '../widgets/RowButton';
import { StatementDialog, type Prepared } from '../widgets/StatementDialog';
import { grants, listed, tokens, users, type Grant, type Token, type User } from './access';
import type { Access } from './AccessPage';
import { LimitsDialog } from './dialogs';
import { dropToken, dropUser, revoke, setAdmin, setEnabled } from './statements';

/** Asks before a statement that takes something away. */
function ask(
  access: Access,
  title: string,
  text: string,
  action: string,
  statement: Prepared,
  typed?: string,
): void {
  access.open({
    dialog: 'question',
    element: (
      <StatementDialog
        title={title}
        statement={statement}
        action={action}
        danger
        {...(typed === undefined ? {} : { typed })}
        onDone={access.changed}
        onClose={access.close}
      >
        <p>{text}</p>
      </StatementDialog>
    ),
  });
}

interface ListProps<T> {
  access: Access;
  name: string;
  load: (words: string, signal: AbortSignal) => Promise<Some<T>>;
  columns: readonly TableColumn<T>[];
  keyOf: (entry: T) => string;
  empty: string;
}

function List<T>({ access, name, load, columns, keyOf, empty }: ListProps<T>): JSX.Element {
  const { words, version } = access;
  const loaded = useLoaded((signal) => load(words, signal), `${name}\n${words}`, { version });
  if (loaded.error) return <ErrorNotice error={loaded.error} retry={loaded.reload} />;
  if (!loaded.value) return <Loading text={`Loading ${name.toLowerCase()}`} />;
  return (
    <DataTable
      label={name}
      columns={columns}
      rows={loaded.value.items}
      keyOf={keyOf}
      empty={words === '' ? empty : 'No user has these letters.'}
      foot={loaded.value.more && `The first ${listed}; a search for a user finds others.`}
    />
  );
}

function limitsOf(user: User): string {
  const parts = [
    user.queries === null ? '' : `${formatCount(user.queries)} queries`,
    user.memory === null ? '' : formatBytes(user.memory),
    user.milliseconds === null ? '' : formatDuration(user.milliseconds / 1000, 3),
  ];
  return parts.filter((part) => part !== '').join(', ') || 'none';
}

export function Users({ access }: { access: Access }): JSX.Element {
  return (
    <List
      access={access}
      name="Users"
      load={users}
      keyOf={(user) => user.name}
      empty="No users yet. Create the first one: it must be an administrator."
      columns={[
        { name: 'Name', cell: (user) => user.name },
        { name: 'Administrator', cell: (user) => (user.admin ? 'yes' : '') },
        { name: 'State', cell: (user) => (user.enabled ? 'enabled' : 'disabled') },
        { name: 'Password', cell: (user) => (user.password ? 'yes' : 'tokens only') },
        { name: 'Tokens', number: true, cell: (user) => formatCount(user.tokens) },
        { name: 'Limits', cell: limitsOf },
        { name: 'Change', cell: (user) => <UserActions access={access} user={user} /> },
      ]}
    />
  );
}

function UserActions({ access, user }: { access: Access; user: User }): JSX.Element {
  const { name } = user;
  const password = (
    <RowButton
      text="Password"
      label={`Change the password of ${name}`}
      onClick={() => access.open({ dialog: 'password', user: name })}
    />
  );
  if (!access.admin) return password;
  const question = (title: string, text: string, action: string, statement: Prepared, typed?: string) => () =>
    ask(access, title, text, action, statement, typed);
  return (
    <span class="actions">
      {password}
      <RowButton
        text="Limits"
        label={`Limits of ${name}`}
        onClick={() =>
          access.open({ dialog: 'question', element: <LimitsDialog access={access} user={user} /> })
        }
      />
      <RowButton
        text={user.admin ? 'Not admin' : 'Admin'}
        label={user.admin ? `Revoke administration from ${name}` : `Make ${name} an administrator`}
        onClick={question(
          user.admin ? `Revoke administration from ${name}?` : `Make ${name} an administrator?`,
          user.admin
            ? 'The user keeps the rights on databases. The last administrator cannot be removed.'
            : 'An administrator may do everything, also change users and drop databases.',
          user.admin ? 'Revoke administration' : 'Make administrator',
          setAdmin(name, !user.admin),
        )}
      />
      <RowButton
        text={user.enabled ? 'Disable' : 'Enable'}
        label={user.enabled ? `Disable ${name}` : `Enable ${name}`}
        onClick={question(
          user.enabled ? `Disable ${name}?` : `Enable ${name}?`,
          `The user and the tokens of the user are ${user.enabled ? 'refused until the user is enabled' : 'accepted'} again.`,
          user.enabled ? 'Disable' : 'Enable',
          setEnabled(name, !user.enabled),
        )}
      />
      <RowButton
        text="Drop"
        label={`Drop ${name}`}
        danger
        onClick={question(
          `Drop ${name}?`,
          `Drops the user with ${counted(user.tokens, 'token')} and all rights. Data stays. This cannot be undone.`,
          'Drop the user',
          dropUser(name),
          name,
        )}
      />
    </span>
  );
}

export function Grants({ access }: { access: Access }): JSX.Element {
  const columns: TableColumn<Grant>[] = [
    { name: 'User', cell: (grant) => grant.user },
    { name: 'Right', cell: (grant) => grant.privilege },
    { name: 'On', cell: (grant) => (grant.database === '*' ? 'all databases' : grant.database) },
  ];
  if (access.admin) {
    columns.push({
      name: 'Change',
      cell: ({ user, privilege, database }) => (
        <RowButton
          text="Revoke"
          label={`Revoke ${privilege} on ${database} from ${user}`}
          danger
          onClick={() =>
            ask(
              access,
              'Revoke this right?',
              `${user} loses ${privilege} on ${database === '*' ? 'all databases' : database}. It applies on every node within two seconds; running queries continue.`,
              'Revoke',
              revoke(user, privilege, database),
            )
          }
        />
      ),
    });
  }
  return (
    <List
      access={access}
      name="Rights"
      load={grants}
      keyOf={(grant) => `${grant.user}\n${grant.privilege}\n${grant.database}`}
      empty={
        access.admin
          ? 'No rights yet: grant one.'
          : 'You have no right yet. Ask an administrator to grant you one.'
      }
      columns={columns}
    />
  );
}

function expiry(token: Token): string {
  if (token.expires === null) return 'never';
  return `${formatInstant(token.expires, zone.value)}${token.expires < Date.now() ? ' (expired)' : ''}`;
}

export function Tokens({ access }: { access: Access }): JSX.Element {
  return (
    <List
      access={access}
      name="Tokens"
      load={tokens}
      keyOf={(token) => `${token.user}\n${token.name}`}
      empty="No tokens yet. Create one for each program that reads or writes."
      columns={[
        { name: 'Name', cell: (token) => token.name },
        { name: 'User', cell: (token) => token.user },
        { name: 'Rights', cell: (token) => token.rights ?? 'all of the user' },
        { name: 'Created', cell: (token) => formatInstant(token.created, zone.value) },
        { name: 'Expires', cell: expiry },
        {
          name: 'Change',
          cell: (token) => (
            <RowButton
              text="Drop"
              label={`Drop the token ${token.name} of ${token.user}`}
              danger
              onClick={() =>
                ask(
                  access,
                  `Drop the token ${token.name}?`,
                  'Programs that use it are refused on every node within two seconds.',
                  'Drop the token',
                  dropToken(token.name, token.user),
                )
              }
            />
          ),
        },
      ]}
    />
  );
}

export function Sessions({ access }: { access: Access }): JSX.Element {
  return (
    <div class="access-text">
      <p>
        A login of a browser, a driver (the handshake of Flight) or TDengine&#39;s <code>/rest/login</code>{' '}
        begins a session. It is valid on every node for twelve hours less five minutes, until the password
        changes, the user is disabled, or its sessions are ended here. Tokens are not sessions.
      </p>
      <p class="actions">
        <button
          type="button"
          class="button danger"
          onClick={() => access.open({ dialog: 'rotate', user: access.user ?? '' })}
        >
          End sessions
        </button>
        {access.admin && <a href="#/live?tab=queries">Connections on the page Live</a>}
      </p>
    </div>
  );
}
