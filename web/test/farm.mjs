// Drives the dashboard of a lab farm in Chromium. It runs on node n1; what is to happen outside is asked for on standard
// output, a line each, and answered on standard input (crates/cli/tests/web.rs):
//
//   {"sh":"n2","script":"…"}   →  {"rc":0,"out":"…"}
//   {"daemon":"n3"}            →  {"rc":0,"out":""}     starts it, and waits until it answers
//
// The last line is {"passed":[…]}. A failure ends it with a text on standard error.

import { readFileSync } from 'node:fs';
import http from 'node:http';
import { createRequire } from 'node:module';
import readline from 'node:readline';
import { chromium } from 'playwright-core';

const require = createRequire(import.meta.url);
const AXE = readFileSync(require.resolve('axe-core/axe.min.js'), 'utf8');
const SHOTS = process.argv[2];
/** Longest wait for anything, as in the other tests on labs. */
const LONG = 60000;
const passed = [];

const answers = readline.createInterface({ input: process.stdin })[Symbol.asyncIterator]();
async function outside(question) {
  process.stdout.write(`${JSON.stringify(question)}\n`);
  const { value, done } = await answers.next();
  if (done) throw new Error('nobody answers outside');
  return JSON.parse(value);
}
async function sh(node, script, good = true) {
  const { rc, out } = await outside({ sh: node, script });
  if (good && rc !== 0) throw new Error(`${node}: ${script}: ${rc}: ${out}`);
  return out.trim();
}
function check(what, holds) {
  if (!holds) throw new Error(`not so: ${what}`);
}
async function until(what, happened) {
  const end = Date.now() + LONG;
  for (;;) {
    if (await happened()) return;
    if (Date.now() > end) throw new Error(`did not happen: ${what}`);
    await new Promise((go) => setTimeout(go, 100));
  }
}
async function fact(name, proof) {
  await proof();
  passed.push(name);
}

const browser = await chromium.launch({ executablePath: '/usr/bin/chromium', args: ['--no-sandbox', '--disable-gpu'] });
const errors = [];
async function open(options = {}) {
  const context = await browser.newContext(options);
  const page = await context.newPage();
  page.setDefaultTimeout(LONG);
  page.on('pageerror', (e) => errors.push(`${e}`));
  page.on('console', (m) => {
    // What the browser itself says of an answer that was expected to be a refusal, or of a server that is restarted.
    if (m.type() === 'error' && !m.text().startsWith('Failed to load resource')) errors.push(m.text());
  });
  page.on('request', (r) => {
    if (!r.url().startsWith('http://127.0.0.1:7118/') && !r.url().startsWith('data:')) errors.push(`third party: ${r.url()}`);
  });
  return page;
}
const shot = (page, name) => page.screenshot({ path: `${SHOTS}/${name}.png`, fullPage: true });
async function accessible(page, where) {
  await page.evaluate(`${AXE}; 0`);
  const { violations } = await page.evaluate(() => window.axe.run(document, { resultTypes: ['violations'] }));
  const bad = violations.filter((v) => ['serious', 'critical'].includes(v.impact));
  const told = bad.map((v) => `${v.id}: ${v.nodes.map((n) => n.html).slice(0, 3).join(' ')}`);
  check(`axe finds nothing serious on ${where}: ${told.join('; ')}`, !bad.length);
}
const tile = (page, node) => page.locator(`article[data-node="${node}"]`);
const chip = (page, k, node) => (node ? tile(page, node) : page).locator(`li:not([inert]) button[data-proc="${k}"]`);
const token = async (more = '') => JSON.parse(await sh('n1', `armento web --json ${more}`)).open;
async function start(node, name, command, options = '--stay') {
  await sh(node, `(sh -c 'echo $$ > /tmp/${name}; exec armento run ${options} ${command}' >/dev/null 2>&1 &) ; i=0; until armento ps --json | grep -q "\\"pid\\": $(cat /tmp/${name} 2>/dev/null || echo none)[,]"; do i=$((i+1)); [ $i -lt 300 ] || exit 1; sleep 0.1; done`);
  return Number(await sh(node, `cat /tmp/${name}`));
}
const place = async (node, pid) => JSON.parse(await sh(node, 'armento ps --json')).procs.find((p) => p.pid === pid)?.place;

const page = await open({ viewport: { width: 1280, height: 900 }, colorScheme: 'light' });
const base = 'http://127.0.0.1:7118/';
const first = await token();

await fact('nobody gets in without a token', async () => {
  await page.goto(base);
  await page.getByRole('heading', { name: 'Armento' }).waitFor();
  await page.getByText('armento web', { exact: true }).waitFor();
  await accessible(page, 'the sign-in page');
  await shot(page, 'sign-in');
  await page.getByLabel('Address or token').fill('c0ffee');
  await page.getByRole('button', { name: 'Sign in' }).click();
  await page.getByRole('alert').getByText('no such token').waitFor();
});

await fact('a token signs one browser in', async () => {
  await page.goto(first);
  // The same document, with another hash: it loads again by itself.
  for (const n of ['n1', 'n2', 'n3']) await tile(page, n).waitFor();
  check('the token is not in the address', !page.url().includes('token'));
  const other = await open();
  await other.goto(first);
  await other.getByRole('alert').getByText('has been used').waitFor();
  await other.context().close();
});

const EVIL = `'"'"'<img/src=x onerror=window.hacked=1>'"'"'`;
const pid = await start('n1', 'a', `perl -e '"'"'1 while 1'"'"' ${EVIL}`);
const k = `n1/${pid}`;
await fact('work is seen to start, and names are text', async () => {
  await chip(page, k, 'n1').waitFor();
  await page.getByRole('link', { name: /<img/ }).waitFor();
  check('no script of a name ran', await page.evaluate(() => window.hacked === undefined && !document.querySelector('img')));
});

await fact('a move is seen', async () => {
  await sh('n1', `armento migrate ${pid} n2`);
  await chip(page, k, 'n2').waitFor();
  await page.locator('[aria-live=polite]').getByText(`process ${pid} moved to n2`).waitFor({ state: 'attached' });
});

await fact('a process is dragged to a node', async () => {
  await chip(page, k, 'n2').dragTo(tile(page, 'n3'));
  await chip(page, k, 'n3').waitFor();
  check('it is there', (await place('n1', pid)) === 'n3');
  await shot(page, 'dragged');
});

await fact('the keyboard moves, stops, continues and renices', async () => {
  const state = () => sh('n1', `ps -o state= -p ${pid}`);
  const menu = async (letter) => {
    await chip(page, k).focus();
    await page.keyboard.press('Enter');
    await page.getByRole('menu').waitFor();
    await page.keyboard.press(letter);
    await page.keyboard.press('Enter');
  };
  await menu('h');
  await chip(page, k, 'n1').waitFor();
  await menu('s');
  await until('it is stopped', async () => /^[Tt]/.test(await state()));
  await menu('c');
  await until('it goes on', async () => !/^[Tt]/.test(await state()));
  await menu('r');
  await page.getByLabel('Niceness').fill('7');
  await page.keyboard.press('Enter');
  await until('it is nice', async () => (await sh('n1', `ps -o ni= -p ${pid}`)) === '7');
  await menu('w');
  await page.getByRole('dialog').getByText('Remedy').waitFor();
  await page.keyboard.press('Escape');
  await page.getByRole('dialog').waitFor({ state: 'hidden' });
  await menu('m');
  await page.getByRole('menuitem', { name: 'n2' }).waitFor();
  await shot(page, 'menu');
  await page.keyboard.press('Enter');
  await chip(page, k, 'n2').waitFor();
});

const theirs = await start('n2', 'b', `perl -e '"'"'1 while 1'"'"'`);
await fact('a process of another home is dragged', async () => {
  const other = `n2/${theirs}`;
  await chip(page, other, 'n2').waitFor();
  await chip(page, other, 'n2').dragTo(tile(page, 'n1'));
  await chip(page, other, 'n1').waitFor();
  check('its home says so', (await place('n2', theirs)) === 'n1');
});

await fact('pages of a node and of a process', async () => {
  await page.goto(`${base}#/process/n1/${pid}`);
  await page.getByRole('heading', { name: `Process ${pid} of n1` }).waitFor();
  await page.locator('ol.moves li').first().waitFor();
  await accessible(page, 'the page of a process');
  await shot(page, 'process');
  await page.goto(`${base}#/node/n2`);
  await page.getByRole('heading', { name: 'Node n2' }).waitFor();
  await accessible(page, 'the page of a node');
  await shot(page, 'node');
  await page.goto(`${base}#/`);
  await tile(page, 'n1').waitFor();
});

const TALK = `use Socket; socketpair(A, B, AF_UNIX, SOCK_STREAM, 0); if (!($c = fork)) { close A; while (sysread(B, $b, 4)) { syswrite(B, $b) } exit }
close B; open(F, ">", "/tmp/child"); print F $c; close F; while (1) { syswrite(A, "ping"); sysread(A, $b, 4) or last }`;
await fact('what is kept safe, what goes from node to node, what is stopped', async () => {
  const facts = page.locator('dl.facts').first();
  const safe = await start('n1', 's', `perl -e '"'"'1 while 1'"'"'`, '--begin here --safe=1');
  await sh('n1', `armento migrate ${safe} n2 && renice -n 5 -p ${safe}`);
  await page.goto(`${base}#/process/n1/${safe}`);
  await page.getByRole('heading', { name: 'Safe' }).waitFor();
  await page.getByText('It goes on if its node is lost.').waitFor();
  await page.locator('dl.facts').nth(1).getByText(/ old, .* at home/).waitFor();
  await facts.getByText('5', { exact: true }).waitFor();
  await sh('n1', `kill -STOP ${safe}`);
  await facts.getByText(', stopped').waitFor();
  await accessible(page, 'the page of a safe process');
  await shot(page, 'process-safe');
  await sh('n1', `kill -CONT ${safe}`);

  await sh('n1', `cat > /tmp/talk.pl <<'END'\n${TALK}\nEND`);
  const talks = await start('n1', 't', 'perl /tmp/talk.pl');
  const child = Number(await sh('n1', 'cat /tmp/child'));
  for (const [who, node] of [[child, 'n3'], [talks, 'n2']]) {
    await until(`${who} moves`, async () => (await outside({ sh: 'n1', script: `armento migrate ${who} ${node}` })).rc === 0);
  }
  await page.goto(`${base}#/process/n1/${talks}`);
  await facts.getByText(/^1 of 1 busy connections/).waitFor();
  await page.getByText(`to process ${child}: from node to node`).waitFor();
  await accessible(page, 'the page of a process that talks');
  await shot(page, 'process-direct');
  await page.emulateMedia({ colorScheme: 'dark' });
  await page.setViewportSize({ width: 375, height: 700 });
  await accessible(page, 'the page of a process on a phone in the dark');
  await shot(page, 'process-direct-phone');
  await page.goto(`${base}#/process/n1/${safe}`);
  await page.getByText('It goes on if its node is lost.').waitFor();
  const wide = await page.evaluate(() => document.documentElement.scrollWidth > window.innerWidth);
  check('a page of a process is no wider than a phone', !wide);
  await shot(page, 'process-safe-phone');
  await page.goto(`${base}#/`);
  await page.locator('td.safe').getByText(/ s$|ms$/).waitFor();
  await shot(page, 'list-phone');
  await page.setViewportSize({ width: 1280, height: 900 });
  await shot(page, 'list-dark');
  await page.emulateMedia({ colorScheme: 'light' });
  await page.locator('td.direct').getByText('1 of 1').first().waitFor();
  await shot(page, 'list-light');
  await sh('n1', `kill ${talks} ${safe}`);
});

await fact('dark and light, wide and narrow', async () => {
  await accessible(page, 'the farm');
  await shot(page, 'light');
  await page.emulateMedia({ colorScheme: 'dark' });
  await accessible(page, 'the farm in the dark');
  await shot(page, 'dark');
  await page.setViewportSize({ width: 375, height: 700 });
  await accessible(page, 'the farm on a phone');
  const wide = await page.evaluate(() => document.documentElement.scrollWidth > window.innerWidth);
  check('nothing is wider than a phone', !wide);
  await shot(page, 'phone');
  await page.setViewportSize({ width: 1280, height: 900 });
});

await fact('a node is lost and comes back', async () => {
  await sh('n3', "pkill -9 -f '[a]rmento node$'");
  await page.locator('article.node.down[data-node="n3"]').waitFor();
  await shot(page, 'lost');
  await outside({ daemon: 'n3' });
  await page.locator('article.node.alive[data-node="n3"]').waitFor();
});

await fact('an open page goes on over a restart of the daemon', async () => {
  await sh('n1', "pkill -9 -f '[a]rmento node$'");
  await page.locator('.banner.bad').getByText('old').waitFor();
  await shot(page, 'old');
  await outside({ daemon: 'n1' });
  await page.locator('.state:not(.old)').getByText('live').waitFor();
  await chip(page, k, 'n2').waitFor();
});

await fact('foreign names and pages are refused', async () => {
  const status = (headers, method = 'GET', path = '/api/me') =>
    new Promise((done, fail) => {
      const request = http.request({ host: '127.0.0.1', port: 7118, path, method, headers }, (r) => (r.resume(), done(r.statusCode)));
      request.on('error', fail);
      request.end();
    });
  check('a foreign name', (await status({ host: 'evil.example' })) === 421);
  check('a foreign page', (await status({ origin: 'http://evil.example' }, 'POST', '/api/act')) === 403);
  check('no cookie', (await status({}, 'GET', '/api/events')) === 401);
  check('a made-up cookie', (await status({ cookie: 'armento-7118=c0ffee' }, 'GET', '/api/events')) === 401);
});

await fact('browsers are signed out by command', async () => {
  await sh('n1', 'armento web --end');
  await page.getByRole('alert').getByText('no such session').waitFor();
});

check(`no error on the console: ${errors.join('; ')}`, !errors.length);
await browser.close();
process.stdout.write(`${JSON.stringify({ passed })}\n`);
process.exit(0);
