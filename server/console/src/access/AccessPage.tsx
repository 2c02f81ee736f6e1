/** The page Access: users, rights, tokens and sessions. */
import type { JSX } from 'preact';
import { useRef, useState } from 'preact/hooks';
import { session } from '../api/session';
import { useCommands } from '../shell/commands';
import { change, route } from '../shell/route';
import { Icon } from '../widgets/icons';
import { Search } from '../widgets/Search';
import { Tabs } from '../widgets/Tabs';
import './access.css';
import { GrantDialog, PasswordDialog, RotateDialog, TokenDialog, UserDialog } from './dialogs';
import { Grants, Sessions, Tokens, Users } from './lists';
import { NewToken } from './NewToken';

const tabs = [
  ['users', 'Users'],
  ['rights', 'Rights'],
  ['tokens', 'Tokens'],
  ['sessions', 'Sessions'],
] as const;

type Tab = (typeof tabs)[number][0];

/** What is open above the page. */
export type Open =
  | { dialog: 'user' }
  | { dialog: 'password' | 'grant' | 'token' | 'rotate'; user: string }
  | { dialog: 'question'; element: JSX.Element };

export interface Access {
  admin: boolean;
  /** The user of this page; `null` with authentication off. */
  user: string | null;
  words: string;
  /** Increases when a list must be loaded again. */
  version: number;
  open: (open: Open) => void;
  close: () => void;
  changed: () => void;
}

export function AccessPage(): JSX.Element {
  const [open, setOpen] = useState<Open | null>(null);
  const [version, setVersion] = useState(0);
  const [token, setToken] = useState<{ name: string; text: string } | null>(null);
  const { parameters } = route.value;
  const tab: Tab = tabs.find(([name]) => name === parameters.get('tab'))?.[0] ?? 'users';
  const current = session.value;
  const access: Access = {
    admin: current?.admin ?? false,
    user: current?.user ?? null,
    words: parameters.get('words') ?? '',
    version,
    open: setOpen,
    close: () => setOpen(null),
    changed: () => setVersion((now) => now + 1),
  };
  const self = access.user ?? '';
  const latest = useRef(access);
  latest.current = access;
  useCommands(() => [
    ...tabs.map(([name, title]) => ({
      name: `Access: show ${title.toLowerCase()}`,
      run: () => change({ tab: name }),
    })),
    ...(access.admin
      ? [
          { name: 'Access: create a user', run: () => setOpen({ dialog: 'user' }) },
          { name: 'Access: grant a right', run: () => setOpen({ dialog: 'grant', user: '' }) },
        ]
      : []),
    { name: 'Access: create a token', run: () => setOpen({ dialog: 'token', user: self }) },
    { name: 'Access: change a password', run: () => setOpen({ dialog: 'password', user: self }) },
    { name: 'Access: end sessions', run: () => setOpen({ dialog: 'rotate', user: self }) },
  ]);

  return (
    <div class="content access">
      <div class="explore-head">
        <h1>Access</h1>
        <div class="actions">
          {access.admin && (
            <button type="button" class="button" onClick={() => setOpen({ dialog: 'user' })}>
              <Icon name="plus" /> New user
            </button>
          )}
          {access.admin && (
            <button type="button" class="button" onClick={() => setOpen({ dialog: 'grant', user: '' })}>
              <Icon name="plus" /> Grant a right
            </button>
          )}
          <button
            type="button"
            class="button primary"
            onClick={() => setOpen({ dialog: 'token', user: self })}
          >
            <Icon name="plus" /> New token
          </button>
        </div>
      </div>
      {current?.authentication === false && <AuthenticationOff />}
      {!access.admin && (
        <p class="hint">
          You see your own user, rights and tokens. Administrators see and change those of all users.
        </p>
      )}
      {token && <NewToken {...token} onClose={() => setToken(null)} />}
      <Tabs
        label="Access"
        value={tab}
        tabs={tabs}
        onChange={(next) => change({ tab: next, words: '' })}
        aside={
          access.admin &&
          tab !== 'sessions' && (
            <Search label="Search users" value={access.words} onChange={(words) => change({ words }, true)} />
          )
        }
      >
        {tab === 'users' && <Users access={access} />}
        {tab === 'rights' && <Grants access={access} />}
        {tab === 'tokens' && <Tokens access={access} />}
        {tab === 'sessions' && <Sessions access={access} />}
      </Tabs>
      <p class="hint">
        The log of the server has a line with the target <code>tidelake::audit</code> for each change and each
        refusal.
        {access.admin && (
          <>
            {' '}
            <a href="#/live?tab=log&words=audit">Show its newest lines</a>.
          </>
        )}
      </p>
      {open?.dialog === 'user' && <UserDialog access={access} />}
      {open?.dialog === 'password' && <PasswordDialog access={access} user={open.user} />}
      {open?.dialog === 'grant' && <GrantDialog access={access} user={open.user} />}
      {open?.dialog === 'token' && (
        <TokenDialog
          access={access}
          user={open.user}
          onToken={(name, text) => {
            setToken({ name, text });
            change({ tab: 'tokens' });
          }}
        />
      )}
      {open?.dialog === 'rotate' && <RotateDialog access={access} user={open.user} />}
      {open?.dialog === 'question' && open.element}
    </div>
  );
}

function AuthenticationOff(): JSX.Element {
  return (
    <div class="notice notice-warning" role="note">
      <Icon name="warning" />
      <div>
        <p class="notice-title">
          Authentication is off: every client that reaches this server may do everything.
        </p>
        <p>
          To turn it on, write a password for the user admin into a file with mode 0600 and start the server
          again with
        </p>
        <pre class="statement" tabIndex={0}>
          tidelake serve --auth on --admin-password-file admin.password
        </pre>
        <p>
          If the root has users already, <code>--auth on</code> is enough. You can create users and rights
          here before that; the first user must be an administrator.
        </p>
      </div>
    </div>
  );
}
