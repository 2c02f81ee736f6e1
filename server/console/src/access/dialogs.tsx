/** Forms that make a statement about users, rights, tokens or sessions. */
import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { loadSession, session } from '../api/session';
import * as tree from '../catalog/tree';
import { Choice } from '../widgets/Choice';
import { Check, Field } from '../widgets/Fields';
import { StatementDialog } from '../widgets/StatementDialog';
import type { User } from './access';
import type { Access } from './AccessPage';
import {
  changePassword,
  createToken,
  createUser,
  everywhere,
  grant,
  limitUser,
  privileges,
  rotateSessions,
  type Privilege,
  type Scope,
} from './statements';

const passwordHint = '8 characters to 1024 bytes';

export function UserDialog({ access }: { access: Access }): JSX.Element {
  const [name, setName] = useState('');
  const [password, setPassword] = useState('');
  const [admin, setAdmin] = useState(false);
  return (
    <StatementDialog
      title="Create a user"
      statement={createUser({ name, password, admin })}
      action="Create the user"
      onDone={access.changed}
      onClose={access.close}
    >
      <Field
        label="Name"
        value={name}
        onChange={setName}
        hint="1 to 64 bytes, no space, quote, colon or slash"
      />
      <Field
        label="Password"
        type="password"
        value={password}
        onChange={setPassword}
        hint={`${passwordHint}; without one the user authenticates by tokens alone`}
      />
      <Check label="Administrator: may do everything" value={admin} onChange={setAdmin} />
      {!admin && <p class="hint">A new user has no rights: grant some afterwards.</p>}
    </StatementDialog>
  );
}

export function PasswordDialog({ access, user }: { access: Access; user: string }): JSX.Element {
  const [name, setName] = useState(user);
  const [password, setPassword] = useState('');
  const [old, setOld] = useState('');
  const [keepTokens, setKeepTokens] = useState(false);
  const own = name === access.user;
  return (
    <StatementDialog
      title="Change a password"
      statement={name === '' ? null : changePassword({ user: name, password, old, keepTokens })}
      action="Change the password"
      onDone={() => {
        access.changed();
        // The session of a user ends with the password.
        if (own) void loadSession().catch(() => undefined);
      }}
      onClose={access.close}
    >
      {access.admin ? <Field label="User" value={name} onChange={setName} /> : <p>User: {name}</p>}
      <Field
        label="New password"
        type="password"
        value={password}
        onChange={setPassword}
        hint={passwordHint}
      />
      {own && (
        <Field
          label="Present password"
          type="password"
          value={old}
          onChange={setOld}
          hint="Needed only if you logged in with a token"
        />
      )}
      <Check label="Keep the tokens of the user" value={keepTokens} onChange={setKeepTokens} />
      <p class="hint">
        This ends the sessions of{' '}
        {own ? 'yours, this one too: log in again with the new password' : 'the user'}
        {!keepTokens && ', and drops all tokens of the user'}.
      </p>
    </StatementDialog>
  );
}

export function LimitsDialog({ access, user }: { access: Access; user: User }): JSX.Element {
  const [queries, setQueries] = useState(String(user.queries ?? ''));
  const [memory, setMemory] = useState(user.memory === null ? '' : `${user.memory}B`);
  const [time, setTime] = useState(user.milliseconds === null ? '' : `${user.milliseconds}a`);
  return (
    <StatementDialog
      title={`Limits of ${user.name}`}
      statement={limitUser(user.name, { queries, memory, time })}
      action="Set the limits"
      onDone={access.changed}
      onClose={access.close}
    >
      <p class="hint">Limits apply on each node. An empty field removes a limit.</p>
      <Field
        label="Concurrent queries"
        value={queries}
        onChange={setQueries}
        hint="Further ones wait; such as 4"
      />
      <Field label="Memory of all queries" value={memory} onChange={setMemory} hint="Such as 512MiB" />
      <Field
        label="Run time of a query"
        value={time}
        onChange={setTime}
        hint="Such as 30s, 5m or 500a (ms)"
      />
    </StatementDialog>
  );
}

/** READ, WRITE or ALL on a database or on all. */
function ScopeFields({ scope, onChange }: { scope: Scope; onChange: (scope: Scope) => void }): JSX.Element {
  const names = tree.loaded.value.get(tree.root)?.nodes.map((node) => node.label) ?? [];
  return (
    <>
      <Choice
        label="Right"
        value={scope.privilege}
        options={privileges.map((one): [Privilege, string] => [one, one])}
        onChange={(privilege) => onChange({ ...scope, privilege })}
      />
      <Choice
        label="On"
        value={scope.database}
        options={[[everywhere, 'all databases'], ...names.map((name): [string, string] => [name, name])]}
        onChange={(database) => onChange({ ...scope, database })}
      />
    </>
  );
}

const meanings: Record<Privilege, string> = {
  READ: 'READ allows queries.',
  WRITE:
    'WRITE allows rows, tables, columns, DELETE and DROP TABLE, and no query; on all databases also new databases.',
  ALL: 'ALL is READ and WRITE.',
};

export function GrantDialog({ access, user }: { access: Access; user: string }): JSX.Element {
  const [name, setName] = useState(user);
  const [scope, setScope] = useState<Scope>({ privilege: 'READ', database: everywhere });
  return (
    <StatementDialog
      title="Grant a right"
      statement={grant(name, scope)}
      action="Grant"
      onDone={access.changed}
      onClose={access.close}
    >
      <Field label="To the user" value={name} onChange={setName} />
      <div class="actions">
        <ScopeFields scope={scope} onChange={setScope} />
      </div>
      <p class="hint">{meanings[scope.privilege]}</p>
    </StatementDialog>
  );
}

const expiries = [
  ['1d', '1 day'],
  ['30d', '30 days'],
  ['90d', '90 days'],
  ['365d', '1 year'],
  ['', 'Never'],
] as const;

/** Rights of one token in the form; a statement can name more. */
const mostScopes = 8;

export function TokenDialog(props: {
  access: Access;
  user: string;
  onToken: (name: string, text: string) => void;
}): JSX.Element {
  const { access, onToken } = props;
  const [name, setName] = useState('');
  const [user, setUser] = useState(props.user);
  const [scopes, setScopes] = useState<Scope[]>([]);
  const [expires, setExpires] = useState<(typeof expiries)[number][0]>('30d');
  return (
    <StatementDialog
      title="Create a token"
      statement={createToken({ name, user, scopes, expires })}
      action="Create the token"
      onDone={(data) => {
        access.changed();
        onToken(name, String(data[0]?.[0] ?? ''));
      }}
      onClose={access.close}
    >
      <Field label="Name" value={name} onChange={setName} hint="What uses it, such as telegraf" />
      {access.admin ? (
        <Field label="For the user" value={user} onChange={setUser} />
      ) : (
        <p>For the user {user}</p>
      )}
      <Choice label="Expires in" value={expires} options={expiries} onChange={setExpires} />
      {scopes.map((scope, index) => (
        <div class="actions" key={index} role="group" aria-label={`Right ${index + 1}`}>
          <ScopeFields scope={scope} onChange={(next) => setScopes(scopes.with(index, next))} />
          <button
            type="button"
            class="button"
            onClick={() => setScopes(scopes.filter((_, other) => other !== index))}
          >
            Remove
          </button>
        </div>
      ))}
      <div class="actions">
        <button
          type="button"
          class="button"
          disabled={scopes.length >= mostScopes}
          onClick={() => setScopes([...scopes, { privilege: 'READ', database: everywhere }])}
        >
          Restrict to a right
        </button>
        <span class="hint">
          {scopes.length === 0
            ? 'Without a restriction the token may do what its user may do.'
            : 'The token never has more rights than its user.'}
        </span>
      </div>
    </StatementDialog>
  );
}

export function RotateDialog({ access, user }: { access: Access; user: string }): JSX.Element {
  const [whose, setWhose] = useState<'one' | 'all'>('one');
  const [name, setName] = useState(user);
  const all = access.admin && (whose === 'all' || session.value?.authentication === false);
  return (
    <StatementDialog
      title="End sessions"
      statement={all ? rotateSessions(null) : name === '' ? null : rotateSessions(name)}
      action="End the sessions"
      danger
      onDone={() => {
        if (all || name === access.user) void loadSession().catch(() => undefined);
      }}
      onClose={access.close}
    >
      <p>
        Ends the sessions of {all ? 'all users' : name === '' ? 'a user' : name} on every node: browsers and
        drivers must log in again. Passwords and tokens stay.
        {(all || name === access.user) &&
          access.user !== null &&
          ' Your own session in this browser ends, too.'}
      </p>
      {access.admin && session.value?.authentication === true && (
        <Choice
          label="Sessions of"
          value={whose}
          options={[
            ['one', 'one user'],
            ['all', 'all users'],
          ]}
          onChange={setWhose}
        />
      )}
      {access.admin && !all && <Field label="User" value={name} onChange={setName} />}
    </StatementDialog>
  );
}
