// Numbers as people read them; the same as armento-model's show.rs.

export function size(kib) {
  if (kib < 1024) return `${kib} K`;
  if (kib < 10240) return `${(kib / 1024).toFixed(1)} M`;
  if (kib < 1048576) return `${Math.floor(kib / 1024)} M`;
  if (kib < 10485760) return `${(kib / 1048576).toFixed(1)} G`;
  return `${Math.floor(kib / 1048576)} G`;
}

export function span(ms) {
  if (ms < 1000) return `${Math.max(0, Math.round(ms))} ms`;
  if (ms < 100000) return `${(ms / 1000).toFixed(1)} s`;
  if (ms < 7200000) return `${Math.floor(ms / 60000)} min`;
  return `${Math.floor(ms / 3600000)} h`;
}

/** Control characters and those that turn text around are shown as `?`; markup is text anyway. */
export function clean(text) {
  // eslint-disable-next-line no-control-regex
  return String(text).replace(/[\u0000-\u001f\u007f-\u009f\u200e\u200f\u202a-\u202e\u2066-\u2069]/g, '?');
}

/** The program's name without directories. */
export function short(command) {
  const word = clean(command).trim().split(' ')[0] ?? '';
  return word.split('/').pop() || word || '?';
}

/** Age of the checkpoint of a process in a word, as the column SAFE of `armento ps`. `now`: the server's time. */
export function safeWord(safe, now) {
  if (safe.replays) return 'replays';
  if (safe.unsafe_now) return 'no';
  return safe.at_ms == null ? 'home' : span(now - safe.at_ms);
}

export function clock(ms) {
  return new Date(ms).toLocaleTimeString();
}

const words = new Intl.Collator('en', { numeric: true });
export const byName = (a, b) => words.compare(a, b);

export const alive = (node) => ['alive', 'shut', 'draining', 'drained', 'suspect'].includes(node.state);
/** Whether it takes guests. */
export const open = (node) => ['alive', 'suspect'].includes(node.state);

/** As `armento log` says it. */
export function outcome(entry) {
  const o = entry.outcome;
  if (o.what === 'moved') return `moved, pause ${(o.pause_us / 1000).toFixed(1)} ms`;
  if (o.what === 'stayed') return `stayed: ${o.stay}${o.detail ? ` (${clean(o.detail)})` : ''}`;
  return { 'under-way': 'under way', began: 'began', gone: 'it ended first', 'dry-run': 'dry run' }[o.what] ?? o.what;
}
