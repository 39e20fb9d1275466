// What a user does with processes: one menu, one answer, and the messages about them.

import { act } from './api.js';

class Actions {
  /** The process whose menu is open, and where: { proc, x, y, back } */
  menu = $state.raw(null);
  /** The answer of the daemon that is shown: { title, lines } */
  answer = $state.raw(null);
  /** Messages at the edge: { id, text, bad } */
  notes = $state.raw([]);
  /** The process that is dragged. */
  dragged = $state.raw(null);
  #count = 0;

  open(proc, element) {
    const box = element.getBoundingClientRect();
    this.menu = { proc, x: box.left, y: box.bottom, back: element };
  }

  close() {
    const back = this.menu?.back;
    this.menu = null;
    back?.isConnected && back.focus();
  }

  note(text, bad = false) {
    const id = ++this.#count;
    this.notes = [...this.notes.slice(-3), { id, text, bad }];
    setTimeout(() => (this.notes = this.notes.filter((n) => n.id !== id)), bad ? 15000 : 6000);
  }

  /** Does it and says how it ended. */
  async run(proc, action, said) {
    try {
      const answer = await act(proc, action);
      if (answer.type === 'moved') {
        const pause = (answer.pause_us / 1000).toFixed(1);
        this.note(`Process ${proc.pid} is on ${answer.node}; it stood still for ${pause} ms.`);
      } else this.note(said ?? `Process ${proc.pid}: done.`);
      return answer;
    } catch (e) {
      this.note(`${e.message}. ${e.hint}`, true);
      return null;
    }
  }

  moveTo(proc, node) {
    this.note(`Process ${proc.pid} goes to ${node} …`);
    return this.run(proc, { what: 'move', to: node === proc.home ? 'home' : { node } });
  }

  async why(proc) {
    try {
      const a = await act(proc, { what: 'why' });
      const lines = [`${proc.pid} is on ${a.place ?? 'an unknown node'}: ${a.explanation}`];
      if (a.detail) lines.push(a.detail);
      if (a.away) {
        lines.push(`Away on ${a.away.node}: ${a.away.calls_per_s} calls/s wait for home; it loses ${a.away.lost_permille / 10} %.`);
      }
      for (const c of a.connections?.listed ?? []) {
        const peer = c.peer == null ? '' : ` to process ${c.peer}`;
        lines.push(`Connection of descriptor ${c.fd}${peer}: ${c.over_home ? `over home: ${c.over_home}` : 'from node to node'}.`);
      }
      lines.push(`Remedy: ${a.remedy}`);
      this.answer = { title: `Why process ${proc.pid} is where it is`, lines };
    } catch (e) {
      this.note(`${e.message}. ${e.hint}`, true);
    }
  }
}

export const actions = new Actions();
