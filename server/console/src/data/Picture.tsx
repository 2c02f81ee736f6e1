/** Files over time: one band for each level, files that overlap below each other. */
import type { JSX } from 'preact';
import { formatInstant, zone } from '../chart/instant';
import { counted, formatBytes, formatCount } from '../chart/units';
import { levelBytes, type Band, type Placed } from './files';

interface Props {
  bands: readonly Band[];
  /** Milliseconds of the first and the last row. */
  from: number;
  to: number;
  /** Milliseconds of a partition; 0 if it is not known. */
  partition: number;
  /** Whether a rectangle may be several files. */
  joined: boolean;
}

const laneHeight = 16;

/** Borders of partitions beyond these are not drawn. */
const mostBorders = 60;

export function Picture({ bands, from, to, partition, joined }: Props): JSX.Element {
  const length = Math.max(1, to - from);
  const percent = (time: number) => ((time - from) / length) * 100;
  const files = bands.flatMap((band) => band.boxes).reduce((sum, box) => sum + box.files, 0);
  const borders: number[] = [];
  if (partition > 0 && length / partition <= mostBorders) {
    for (let time = Math.ceil(from / partition) * partition; time < to; time += partition) borders.push(time);
  }
  return (
    <figure class="picture">
      <div class="bands" role="region" aria-label="Files over time" tabIndex={0}>
        {bands.map((band) => (
          <div class="band" key={band.level}>
            <span class="band-name">{levelName(band.level)}</span>
            <svg
              width="100%"
              height={band.lanes * laneHeight}
              role="img"
              aria-label={`${counted(
                band.boxes.reduce((sum, box) => sum + box.files, 0),
                'file',
              )} of ${levelName(band.level)}, at most ${band.lanes} at once`}
            >
              {borders.map((time) => (
                <line
                  key={time}
                  class="border"
                  x1={`${percent(time)}%`}
                  x2={`${percent(time)}%`}
                  y1="0"
                  y2="100%"
                />
              ))}
              {band.boxes.map((box, index) => (
                <rect
                  key={index}
                  class={`box box-${band.level}`}
                  x={`${percent(box.from)}%`}
                  y={box.lane * laneHeight + 2}
                  width={`${Math.max(0.25, percent(box.to) - percent(box.from))}%`}
                  height={laneHeight - 4}
                >
                  <title>{describe(box)}</title>
                </rect>
              ))}
            </svg>
          </div>
        ))}
      </div>
      <div class="band-axis">
        <span>{formatInstant(Math.floor(from), zone.value)}</span>
        <span>{formatInstant(Math.floor(to), zone.value)}</span>
      </div>
      <figcaption class="hint">
        {joined
          ? `${formatCount(files)} files: those of one level that begin near each other are one rectangle.`
          : 'One rectangle for each file, from its first row to its last one. Files that overlap are below each other.'}
      </figcaption>
    </figure>
  );
}

function levelName(level: number): string {
  const most = levelBytes[level];
  return most === undefined
    ? `${formatBytes(levelBytes.at(-1) ?? 0)} and more`
    : `below ${formatBytes(most)}`;
}

function describe(box: Placed): string {
  return (
    `${counted(box.files, 'file')}, ${counted(box.rows, 'row')}, ${formatBytes(box.bytes)}\n` +
    `${formatInstant(Math.floor(box.from), zone.value)} to ${formatInstant(Math.floor(box.to), zone.value)}`
  );
}
