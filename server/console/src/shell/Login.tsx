/** The page of a server that requires credentials. */
import type { JSX } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { awaitsFirstUser, logIn } from '../api/session';
import { Choice } from '../widgets/Choice';
import { ErrorNotice } from '../widgets/Notice';
import { FirstUser } from './FirstUser';
import { useSubmit } from './form';
import { Logo } from './Logo';

type Method = 'password' | 'token';

export function Login(): JSX.Element {
  const [method, setMethod] = useState<Method>('password');
  const [first, setFirst] = useState(false);

  useEffect(() => {
    awaitsFirstUser().then(setFirst, () => setFirst(false));
  }, []);

  const { error, busy, submit } = useSubmit((text) =>
    logIn(method === 'token' ? { token: text('token') } : { user: text('user'), password: text('password') }),
  );

  if (first) return <FirstUser />;
  return (
    <main class="login">
      <form onSubmit={submit}>
        <h1>
          <Logo /> Log in to Tidelake
        </h1>
        <Choice
          label="With"
          value={method}
          options={[
            ['password', 'Name and password'],
            ['token', 'Token'],
          ]}
          onChange={setMethod}
        />
        {method === 'password' ? (
          <>
            <label>
              Name
              <input name="user" autocomplete="username" required autofocus />
            </label>
            <label>
              Password
              <input name="password" type="password" autocomplete="current-password" required />
            </label>
          </>
        ) : (
          <label>
            Token
            <input name="token" type="password" autocomplete="off" required autofocus />
          </label>
        )}
        {error && <ErrorNotice error={error} />}
        <button type="submit" class="button primary" disabled={busy}>
          {busy ? 'Logging in…' : 'Log in'}
        </button>
        <p class="login-hint">
          No user yet? An administrator creates one: <code>CREATE USER ada PASSWORD '…'</code>
        </p>
      </form>
    </main>
  );
}
