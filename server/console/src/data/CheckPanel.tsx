/** The check of the root on request, for administrators, and what it found. */
import type { JSX } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { checkRoot, type CheckReport, type Finding } from '../api/check';
import { isAbort, toApiError, type ApiError } from '../api/errors';
import { counted, formatBytes, formatCount } from '../chart/units';
import { useCommands } from '../shell/commands';
import { DataTable } from '../widgets/DataTable';
import { ErrorNotice } from '../widgets/Notice';

/** Findings that are shown of each kind. */
const shown = 200;

export function CheckPanel(): JSX.Element {
  const [busy, setBusy] = useState(false);
  const [report, setReport] = useState<CheckReport | null>(null);
  const [error, setError] = useState<ApiError | null>(null);
  const running = useRef<AbortController | null>(null);
  useEffect(() => () => running.current?.abort(), []);

  const run = async (rows: boolean) => {
    running.current?.abort();
    const mine = new AbortController();
    running.current = mine;
    setBusy(true);
    setError(null);
    setReport(null);
    try {
      setReport(await checkRoot(rows, mine.signal));
    } catch (thrown) {
      if (!isAbort(thrown)) setError(toApiError(thrown));
    }
    if (running.current === mine) setBusy(false);
  };
  const latest = useRef(run);
  latest.current = run;
  useCommands(() => [{ name: 'Data: check everything', run: () => void latest.current(true) }]);

  return (
    <section class="compaction" aria-label="Check">
      <h2>Check</h2>
      <div class="actions">
        <button type="button" class="button" disabled={busy} onClick={() => void run(true)}>
          {busy ? 'Checking…' : 'Check everything'}
        </button>
        <button type="button" class="button" disabled={busy} onClick={() => void run(false)}>
          Check without rows
        </button>
        {busy && (
          <button type="button" class="button" onClick={() => running.current?.abort()}>
            Cancel
          </button>
        )}
        <span class="hint">
          Reads every object of this root and compares checksums, counts and aggregates; it changes nothing.
        </span>
      </div>
      {error && <ErrorNotice error={error} />}
      {report && (
        <>
          <p class="result-note" role="status">
            {checkText(report)}
          </p>
          {report.faults.length > 0 && (
            <>
              <p>
                What to do: <code>docs/operations/corrupt-object.md</code>
              </p>
              <Findings label="Faults" found={report.faults} more={report.more} />
            </>
          )}
          {report.notes.length > 0 && <Findings label="Notes" found={report.notes} more={0} />}
        </>
      )}
    </section>
  );
}

function Findings({ label, found, more }: { label: string; found: Finding[]; more: number }): JSX.Element {
  const left = Math.max(0, found.length - shown) + more;
  return (
    <>
      <h3>{label}</h3>
      <DataTable
        label={label}
        rows={found.slice(0, shown)}
        keyOf={(finding) => `${finding.key}\n${finding.what}\n${finding.found ?? ''}`}
        empty={null}
        foot={left > 0 && `And ${formatCount(left)} more: tidelake check lists them.`}
        columns={[
          { name: 'Object', cell: (finding) => <code>{finding.key}</code> },
          { name: 'What', cell: (finding) => finding.what },
          { name: 'Expected', cell: (finding) => finding.expected ?? '' },
          { name: 'Found', cell: (finding) => finding.found ?? '' },
        ]}
      />
    </>
  );
}

export function checkText(report: CheckReport): string {
  const faults = report.faults.length === 0 ? 'No faults' : counted(report.faults.length, 'fault');
  const objects = [
    counted(report.versions, 'version'),
    counted(report.segments, 'log segment'),
    `${counted(report.files, 'data file')} with ${counted(report.rows, 'row')}`,
  ];
  return `${faults} in ${objects.join(', ')}, ${formatBytes(report.bytes)}.`;
}
