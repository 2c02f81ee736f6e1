/** The page of a root without users: whoever reads the log of the server creates the first administrator. */
import type { JSX } from 'preact';
import { createFirstUser } from '../api/session';
import { ErrorNotice } from '../widgets/Notice';
import { useSubmit } from './form';
import { Logo } from './Logo';

export function FirstUser(): JSX.Element {
  const { error, busy, submit } = useSubmit((text) =>
    createFirstUser(text('code'), text('user'), text('password')),
  );

  return (
    <main class="login">
      <form onSubmit={submit}>
        <h1>
          <Logo /> Create the first user
        </h1>
        <p class="login-hint">
          This server has no users yet. It wrote a one-time code to its log when it started.
        </p>
        <label>
          Code
          <input name="code" autocomplete="off" required autofocus spellcheck={false} />
        </label>
        <label>
          Name of the administrator
          <input name="user" autocomplete="username" required />
        </label>
        <label>
          Password, at least 8 characters
          <input name="password" type="password" autocomplete="new-password" minLength={8} required />
        </label>
        {error && <ErrorNotice error={error} />}
        <button type="submit" class="button primary" disabled={busy}>
          {busy ? 'Creating…' : 'Create and log in'}
        </button>
      </form>
    </main>
  );
}
