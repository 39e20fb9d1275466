// The farm as the server tells it: one store for all pages. Rows are replaced when they change, never edited.

import { ask, stream } from './api.js';
import { byName } from './show.js';

/** Without a message for so long what is shown is called old, milliseconds. */
const OLD_MS = 3000;
const AGAIN_MS = [300, 1000, 2000, 5000];
const MOVES_MAX = 200;
const POINTS_MAX = 450;

class Farm {
  /** 'starting', 'in', 'out' */
  signed = $state('starting');
  /** Why not: { code, message, hint } */
  why = $state(null);
  who = $state.raw({});
  me = $state('');
  nodes = $state.raw(new Map());
  procs = $state.raw(new Map());
  moves = $state.raw([]);
  leftOut = $state(0);
  silent = $state.raw([]);
  /** The daemon does not answer, or the server: a text. */
  lost = $state(null);
  /** The server's time of the last good look, and how far its clock is ahead of ours. */
  at = $state(0);
  ahead = $state(0);
  now = $state(Date.now());
  /** Another version of these pages is served. */
  newer = $state(false);
  /** Moves that were seen a moment ago, for those who hear the page. */
  said = $state('');
  points = $state.raw([]);
  #pages = '';
  #end = new AbortController();

  sorted = $derived([...this.nodes.values()].sort((a, b) => byName(a.k, b.k)));
  /** Milliseconds since the last good look. */
  age = $derived(this.at ? Math.max(0, this.now + this.ahead - this.at) : 0);
  old = $derived(this.signed === 'in' && this.at > 0 && (this.age > OLD_MS || this.lost !== null));
  byPlace = $derived.by(() => {
    const all = new Map();
    for (const p of this.procs.values()) {
      if (!all.has(p.place)) all.set(p.place, []);
      all.get(p.place).push(p);
    }
    for (const list of all.values()) list.sort((a, b) => byName(a.k, b.k));
    return all;
  });

  async start() {
    setInterval(() => (this.now = Date.now()), 500);
    const token = /^#token=(\w+)$/.exec(location.hash)?.[1];
    // A token is used once: it must not stay in the address, nor in the history.
    if (token) history.replaceState(null, '', '#/');
    await (token ? this.signIn(token) : this.resume());
  }

  async signIn(token) {
    try {
      await ask('/api/sign-in', { token });
    } catch (e) {
      // A page that is opened a second time with the same address is signed in already.
      if (await this.resume(true)) return;
      this.out(e);
      return;
    }
    await this.resume();
  }

  async resume(quiet = false) {
    try {
      const who = await ask('/api/me');
      if (!who.signed_in) {
        if (!quiet) this.out(null);
        return false;
      }
      this.who = who;
    } catch (e) {
      if (quiet) return false;
      if (e.status === 401) this.out(e);
      else {
        // The daemon starts again, perhaps: the stream keeps trying.
        this.signed = 'in';
        this.lost = e.message;
        this.#follow();
      }
      return false;
    }
    this.#pages = this.who.pages;
    this.signed = 'in';
    this.why = null;
    this.#follow();
    return true;
  }

  async signOut() {
    await ask('/api/sign-out', {}).catch(() => {});
    this.out({ code: 'signed-out', message: 'You are signed out.', hint: '`armento web` prints an address to open' });
  }

  out(why) {
    this.#end.abort();
    this.signed = 'out';
    this.why = why;
    this.nodes = new Map();
    this.procs = new Map();
    this.moves = [];
    this.at = 0;
  }

  async #follow() {
    this.#end.abort();
    this.#end = new AbortController();
    const { signal } = this.#end;
    for (let tries = 0; !signal.aborted; tries++) {
      try {
        await stream('/api/events', signal, (message) => {
          if (signal.aborted) return;
          tries = 0;
          this.take(message);
        });
        if (!signal.aborted) this.lost ??= 'the connection ended; it is made again';
      } catch (e) {
        if (signal.aborted) return;
        if (e.status === 401) return this.out(e);
        this.lost = e.message;
      }
      await new Promise((go) => setTimeout(go, AGAIN_MS[Math.min(tries, AGAIN_MS.length - 1)]));
    }
  }

  take(m) {
    if (m.over) return this.out(m.over);
    if (m.full) {
      this.me = m.me;
      this.nodes = new Map(m.nodes.map((n) => [n.k, n]));
      const before = this.procs;
      this.procs = new Map(m.procs.map((p) => [p.k, p]));
      this.moves = m.moves.slice(-MOVES_MAX);
      this.leftOut = m.left_out;
      this.silent = m.silent;
      this.#announce(before, m.procs);
      this.#history();
      if (this.#pages && m.pages !== this.#pages) this.newer = true;
      this.#pages ||= m.pages;
    } else {
      if (m.nodes || m.gone_nodes) this.nodes = merged(this.nodes, m.nodes, m.gone_nodes);
      if (m.procs || m.gone) {
        this.#announce(this.procs, m.procs ?? []);
        this.procs = merged(this.procs, m.procs, m.gone);
      }
      if (m.moves) {
        const new_ = new Map(m.moves.map((e) => [e.seq, e]));
        const kept = this.moves.map((e) => new_.get(e.seq) ?? e);
        const last = kept.at(-1)?.seq ?? 0;
        this.moves = [...kept, ...m.moves.filter((e) => e.seq > last)].slice(-MOVES_MAX);
      }
      if ('left_out' in m) this.leftOut = m.left_out;
      if ('silent' in m) this.silent = m.silent;
      if (m.point) this.points = [...this.points, { ...m.point, load: this.#load() }].slice(-POINTS_MAX);
    }
    if ('lost' in m) this.lost = m.lost;
    else this.lost = null;
    if (m.at_ms && !m.lost) {
      this.at = m.at_ms;
      this.ahead = m.at_ms - Date.now();
      this.now = Date.now();
    }
  }

  #load() {
    const all = [...this.nodes.values()].filter((n) => n.state !== 'down');
    return all.length ? all.reduce((sum, n) => sum + n.load, 0) / all.length : null;
  }

  #announce(before, changed) {
    const moved = changed.filter((p) => p.place && before.has(p.k) && before.get(p.k).place !== p.place);
    if (!moved.length) return;
    const first = moved.slice(0, 3).map((p) => `process ${before.get(p.k).pid} moved to ${p.place}`);
    const more = moved.length > 3 ? `, and ${moved.length - 3} more` : '';
    this.said = first.join(', ') + more;
  }

  async #history() {
    const said = await ask('/api/history').catch(() => null);
    if (!said?.counts) return;
    // Both are sampled at the same looks; loads may reach further back.
    const { counts, loads } = said;
    let j = 0;
    this.points = counts.t.map((t, i) => {
      while (j + 1 < loads.t.length && loads.t[j + 1] <= t) j++;
      return {
        t,
        moves: counts.moves[i],
        pause_us: counts.pause_us[i],
        forwarded: counts.forwarded[i],
        load: loads.load[j] ?? null,
        step: counts.step_ms,
      };
    });
  }
}

function merged(known, changed = [], gone = []) {
  const all = new Map(known);
  for (const row of changed) all.set(row.k, { ...all.get(row.k), ...row });
  for (const k of gone) all.delete(k);
  return all;
}

export const farm = new Farm();
