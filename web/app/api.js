// Questions to the server. An answer that is no success is thrown as { code, message, hint, status }.

const NO_SERVER = {
  code: 'no-server',
  message: 'the dashboard does not answer',
  hint: 'is the daemon running? systemctl status armento',
};

export async function ask(path, body) {
  let reply;
  try {
    reply = await fetch(path, {
      method: body === undefined ? 'GET' : 'POST',
      headers: body === undefined ? {} : { 'content-type': 'application/json' },
      body: body === undefined ? undefined : JSON.stringify(body),
      credentials: 'same-origin',
    });
  } catch {
    throw { ...NO_SERVER, status: 0 };
  }
  const said = await reply.json().catch(() => ({}));
  if (!reply.ok) throw { ...NO_SERVER, ...said.error, status: reply.status };
  return said;
}

/** Something with one process; returns the daemon's answer. */
export async function act(proc, action) {
  const said = await ask('/api/act', { home: proc.home, action: { pid: proc.pid, ...action } });
  return said.answer;
}

/** Reads server-sent events until the stream ends; throws like `ask`. `signal` ends it. */
export async function stream(path, signal, each) {
  let reply;
  try {
    reply = await fetch(path, { signal, credentials: 'same-origin' });
  } catch {
    throw { ...NO_SERVER, status: 0 };
  }
  if (!reply.ok) {
    const said = await reply.json().catch(() => ({}));
    throw { ...NO_SERVER, ...said.error, status: reply.status };
  }
  const reader = reply.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      rest += value;
      const events = rest.split('\n\n');
      rest = events.pop();
      for (const event of events) if (event.startsWith('data: ')) each(JSON.parse(event.slice(6)));
    }
  } catch {
    throw { ...NO_SERVER, status: 0 };
  }
}
