/** The page of a server that requires credentials. */
import type { JSX } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { toApiError, type ApiError } from '../api/errors';
import { awaitsFirstUser, logIn } from '../api/session';
import { Choice } from '../widgets/Choice';
import { ErrorNotice } from '../widgets/Notice';
import { FirstUser } from './FirstUser';
import { texts } from './form';
import { Logo } from './Logo';

type Method = 'password' | 'token';

export function Login(): JSX.Element {
  const [method, setMethod] = useState<Method>('password');
  const [error, setError] = useState<ApiError | null>(null);
  const [busy, setBusy] = useState(false);
  const [first, setFirst] = useState(false);

  useEffect(() => {
    awaitsFirstUser().then(setFirst, () => setFirst(false));
  }, []);

  const submit = async (event: SubmitEvent) => {
    event.preventDefault();
    if (!(event.currentTarget instanceof HTMLFormElement)) return;
    const text = texts(event.currentTarget);
    setBusy(true);
    setError(null);
    try {
      await logIn(
        method === 'token' ? { token: text('token') } : { user: text('user'), password: text('password') },
      );
    } catch (thrown) {
      setError(toApiError(thrown));
      setBusy(false);
    }
  };

  if (first) return <FirstUser />;
  return (
    <main class="login">
      <form onSubmit={(event) => void submit(event)}>
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
