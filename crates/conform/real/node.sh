cat > main.js <<'JS'
const { Worker } = require('worker_threads');
const crypto = require('crypto'), zlib = require('zlib'), fs = require('fs'), net = require('net');
const { spawn, execFileSync } = require('child_process');
const wait = (ms) => new Promise((r) => setTimeout(r, ms));

const body = `
const { parentPort, workerData } = require('worker_threads');
const shared = new Int32Array(workerData.memory);
let s = workerData.seed;
for (let i = 0; i < 300000; i++) s = (s * 16807) % 2147483647;
const garbage = [];
for (let i = 0; i < 40000; i++) { garbage.push({ i, text: 'x' + i }); if (i % 997 == 0) garbage.length = 0; }
for (let i = 0; i < 1000; i++) Atomics.add(shared, 0, 1);
Atomics.notify(shared, 0);
parentPort.on('message', (m) => { parentPort.postMessage([workerData.seed, s, m * 2]); parentPort.close(); });
`;

async function workers() {
  const memory = new SharedArrayBuffer(8);
  const answers = await Promise.all([3, 5, 7].map((seed) => new Promise((done, bad) => {
    const w = new Worker(body, { eval: true, workerData: { seed, memory } });
    w.on('message', done); w.on('error', bad); w.postMessage(seed);
  })));
  console.log('workers', JSON.stringify(answers), new Int32Array(memory)[0]);
}

async function timers() {
  const order = [];
  const all = [40, 10, 30, 20, 0].map((n) => wait(n * 8).then(() => order.push(n)));
  let ticks = 0;
  const every = setInterval(() => ticks++, 15);
  await Promise.all(all);
  while (ticks < 5) await wait(15);
  clearInterval(every);
  const start = process.hrtime.bigint();
  await wait(100);
  console.log('timers', order.join(), ticks >= 5, process.hrtime.bigint() - start >= 99000000n);
}

async function pool() {
  const digest = (n) => new Promise((r) => crypto.pbkdf2('p' + n, 'salt', 4000, 16, 'sha256', (e, k) => r(k.toString('hex'))));
  console.log('pool', (await Promise.all([1, 2, 3, 4, 5, 6].map(digest))).join(' '));
  const text = Buffer.from(Array.from({ length: 20000 }, (_, i) => i * i).join(' '));
  const packed = await new Promise((r) => zlib.gzip(text, (e, b) => r(b)));
  const back = await new Promise((r) => zlib.gunzip(packed, (e, b) => r(b)));
  console.log('zlib', back.equals(text));
  await fs.promises.writeFile('file', text);
  console.log('file', (await fs.promises.readFile('file')).length, (await fs.promises.readdir('.')).sort().join());
}

async function sockets() {
  const server = net.createServer((c) => { c.on('data', (d) => c.write(String(d).toUpperCase())); c.on('end', () => c.end()); });
  await new Promise((r) => server.listen('./sock', r));
  const talk = (word) => new Promise((r) => {
    let got = '';
    const c = net.connect('./sock', async () => { c.write(word + '-one '); await wait(60); c.end(word + '-two'); });
    c.on('data', (d) => (got += d)); c.on('close', () => r(got));
  });
  console.log('sockets', (await Promise.all(['ab', 'cd', 'ef'].map(talk))).join(' '));
  await new Promise((r) => server.close(r));
}

async function children() {
  console.log('exec', execFileSync('sh', ['-c', 'echo from a child; exit 0']).toString().trim());
  const c = spawn('cat');
  let got = '';
  c.stdout.on('data', (d) => (got += d));
  c.stdin.write('through '); await wait(50); c.stdin.end('a pipe');
  const code = await new Promise((r) => c.on('close', r));
  const k = spawn('sleep', ['100']);
  const end = new Promise((r) => k.on('exit', (code, signal) => r([code, signal])));
  k.kill('SIGTERM');
  console.log('spawn', code, got, JSON.stringify(await end));
  const u = new Promise((r) => process.on('SIGUSR2', () => r('usr2')));
  const alive = setInterval(() => {}, 1000);
  process.kill(process.pid, 'SIGUSR2');
  console.log('signal', await u);
  clearInterval(alive);
}

(async () => {
  await workers(); await timers(); await pool(); await sockets(); await children();
  try { JSON.parse('{'); } catch (e) { console.log(e.name); }
  process.exitCode = 4;
})();
JS
node main.js
echo "status $?"
rm -f sock
