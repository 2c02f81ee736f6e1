/** Asks for another retention of a table or a database. A shorter one deletes rows, so that its name must be typed. */
import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { formatCount } from '../chart/units';
import { Field } from '../widgets/Fields';
import { useLoaded } from '../widgets/loaded';
import { StatementDialog, type Prepared } from '../widgets/StatementDialog';
import { isKeep } from './statements';
import { durationOf, isShorter } from './table';

interface Props {
  name: string;
  /** The retention as it is. */
  keep: string;
  statement: (keep: string) => Prepared | null;
  /** The number of rows before an instant; `null` where it cannot be counted at once. */
  count: ((bound: string, signal: AbortSignal) => Promise<number>) | null;
  onDone: () => void;
  onClose: () => void;
}

export function KeepDialog({ name, keep: now, statement, count, onDone, onClose }: Props): JSX.Element {
  const [keep, setKeep] = useState(now);
  const shorter = isKeep(keep) && isShorter(now, keep);
  const older = useLoaded((signal) => {
    if (!shorter || count === null) return Promise.resolve(0);
    return count(new Date(Date.now() - durationOf(keep)).toISOString(), signal);
  }, keep);
  const counted = older.error
    ? `The number of rows older than this is not known: ${older.error.message}.`
    : older.value === null
      ? 'Counting the rows that are older…'
      : `${formatCount(older.value)} rows are older than this now.`;
  return (
    <StatementDialog
      title={`Retention of ${name}`}
      statement={statement(keep)}
      action="Change the retention"
      danger={shorter}
      {...(shorter ? { typed: name } : {})}
      onDone={onDone}
      onClose={onClose}
    >
      <Field
        label="Keep rows for"
        value={keep}
        onChange={setKeep}
        hint="Days, or with a unit: 30d, 720h; 1d to 365000d, and not shorter than a partition"
      />
      {shorter && (
        <p role="status">
          {count === null ? 'This does not change tables that have their own retention.' : counted} The server
          deletes partitions whose rows are all older. This cannot be undone.
        </p>
      )}
    </StatementDialog>
  );
}
