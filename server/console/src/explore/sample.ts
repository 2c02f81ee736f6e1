/** Sample data: a day of metrics of a small fleet, in line protocol. */

export const sampleDatabase = 'sample';
export const sampleTable = 'cpu';

const regions = ['eu-west-1', 'us-east-1', 'ap-south-1'] as const;
const roles = ['web', 'db', 'cache', 'batch'] as const;
const step = 60;
const day = 86_400;

/** Numbers of [0, 1) that depend on the seed alone (mulberry32). */
export function random(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
}

/** The lines of one host for the day that ends at `end` (seconds). One host is silent for a while, one has a peak. */
export function linesOf(host: number, end: number): string {
  const next = random(host + 1);
  const region = regions[host % regions.length] ?? '';
  const role = roles[host % roles.length] ?? '';
  const lines: string[] = [];
  const last = end - (end % step);
  let requests = 0;
  for (let time = last - day; time < last; time += step) {
    const passed = (time - (last - day)) / day;
    const noise = next();
    if (host === 3 && passed > 0.55 && passed < 0.63) continue;
    const wave = 30 + host + 18 * Math.sin((time / day) * 2 * Math.PI + host);
    const peak = host === 6 && passed > 0.8 && passed < 0.84 ? 45 : 0;
    const user = Math.min(99, Math.max(0.5, wave + peak + 6 * (noise - 0.5)));
    requests += Math.round(user * (3 + noise));
    lines.push(
      `${sampleTable},host=node-${String(host + 1).padStart(2, '0')},region=${region},role=${role} ` +
        `usage_user=${user.toFixed(2)},usage_system=${(user / 4 + noise).toFixed(2)},` +
        `memory=${Math.round(2e9 + 1e7 * user + 5e7 * noise)}i,requests=${requests}i ${time}`,
    );
  }
  return lines.join('\n');
}

export const sampleHosts = 12;
