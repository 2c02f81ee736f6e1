/** Names, colours and numbers of the lines; a click hides or shows one. */
import type { JSX } from 'preact';
import { useMemo } from 'preact/hooks';
import type { Style } from './Plot';
import { summarise, type Values } from './series';
import { formatValue, type Unit } from './units';

interface Props {
  styles: readonly Style[];
  values: readonly Values[];
  unit: Unit;
  /** The index of the time under the pointer. */
  point: number | null;
  onToggle: (name: string, only: boolean) => void;
}

export function Legend({ styles, values, unit, point, onToggle }: Props): JSX.Element {
  // A pointer that moves over the chart changes one column only.
  const summaries = useMemo(() => values.map(summarise), [values]);
  return (
    <div class="legend" tabIndex={0} role="region" aria-label="Lines of the chart">
      <table>
        <thead>
          <tr>
            <th scope="col">Line</th>
            <th scope="col">{point === null ? 'Last' : 'At cursor'}</th>
            <th scope="col">Min</th>
            <th scope="col">Mean</th>
            <th scope="col">Max</th>
          </tr>
        </thead>
        <tbody>
          {styles.map((style, index) => {
            const row = values[index] ?? [];
            const { min, max, mean, last } = summaries[index] ?? summarise(row);
            return (
              <tr key={style.name} class={style.shown ? '' : 'legend-hidden'}>
                <th scope="row">
                  <button
                    type="button"
                    aria-pressed={style.shown}
                    title="Hide or show; with Shift, show only this line"
                    onClick={(event) => onToggle(style.name, event.shiftKey)}
                  >
                    <span
                      class={style.earlier ? 'swatch swatch-earlier' : 'swatch'}
                      style={{ borderColor: `var(${style.colour})` }}
                    />
                    {style.name}
                  </button>
                </th>
                <td>{formatValue(point === null ? last : row[point], unit)}</td>
                <td>{formatValue(min, unit)}</td>
                <td>{formatValue(mean, unit)}</td>
                <td>{formatValue(max, unit)}</td>
              </tr>
            );
          })}
        </tbody>
      </table>
    </div>
  );
}
