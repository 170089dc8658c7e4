// Kills a server with -9 while BullMQ's workers do jobs, starts it again, and counts what became of the jobs:
//   node kills.js [--jobs 20000] [--seconds 30] [--kills 15,33,52,70] [--down 0] [--port 7399] -- COMMAND...
// COMMAND starts the server; {port} and {dir} in it are replaced. The program exits with 1 if a job is lost, early or left.
//
// A third of the jobs are delayed by 1 to 46 s, a tenth fail at first, and a fiftieth always. Of each 25, three are a parent
// and its children. All are added in the first --seconds, so that later kills find delayed jobs only. --down says how many
// seconds pass from a kill to the next start.
//
// When jobs are due and none has run for 30 s, the program prints what the server and the workers wait for. It gives up
// after five minutes.
const {spawn} = require('node:child_process');
const {once} = require('node:events');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const {setTimeout: sleep} = require('node:timers/promises');
const {parseArgs} = require('node:util');
const {FlowProducer, Queue, Worker} = require('bullmq');
const Redis = require('ioredis');

const {values: flags, positionals: command} = parseArgs({
  options: {
    jobs: {type: 'string', default: '20000'},
    seconds: {type: 'string', default: '30'},
    kills: {type: 'string', default: '15,33,52,70'},
    down: {type: 'string', default: '0'},
    port: {type: 'string', default: '7399'},
  },
  allowPositionals: true,
});
const jobs = Number(flags.jobs);
const kills = flags.kills.split(',').map(Number);
const port = Number(flags.port);
const name = 'jobs';
const clients = 50;
const stalledAfter = 30_000;
const givenUpAfter = 300_000;
const connection = {host: '127.0.0.1', port, maxRetriesPerRequest: null};
const began = Date.now();
const log = (...words) => console.log(((Date.now() - began) / 1000).toFixed(1).padStart(6), ...words);

const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'kills-'));
const output = fs.openSync(`${dir}.log`, 'a');
let server;
function start() {
  const [program, ...args] = command.map((arg) => arg.replaceAll('{port}', port).replaceAll('{dir}', dir));
  server = spawn(program, args, {stdio: ['ignore', output, output]});
  server.on('exit', (code, signal) => {
    if (signal === 'SIGKILL') return;
    console.error(`the server ended with ${code}; its log is ${dir}.log`);
    process.exit(1);
  });
}
process.on('exit', () => server?.kill('SIGKILL'));
process.on('SIGINT', () => process.exit(1));
process.on('SIGTERM', () => process.exit(1));

async function kill() {
  const exited = once(server, 'exit');
  server.kill('SIGKILL');
  await exited;
}

// What jobs did: how often each ran to its end, when one failed last, and how many ran too early.
const done = new Map();
const failedAt = new Map();
const backoff = 1000;
let early = 0;
let lastRun = Date.now();
let killed = false;

const delayOf = (i) => i % 3 === 0 ? 1000 + i * 7919 % 45_001 : 0;
const failures = (i) => i % 50 === 7 ? 3 : i % 10 === 7 ? 1 : 0;

function job(i) {
  const timestamp = Date.now();
  const opts = {jobId: `job-${i}`, timestamp, delay: delayOf(i), attempts: 3, backoff: {type: 'fixed', delay: backoff}};
  return {name: 'job', queueName: name, data: {i, due: timestamp + delayOf(i)}, opts};
}

async function run({data: {i, due}, attemptsMade}) {
  if (killed) log('a job runs again');
  killed = false;
  lastRun = Date.now();
  if (lastRun < Math.max(due, (failedAt.get(i) ?? 0) + backoff)) early++;
  await sleep(i % 100);
  if (attemptsMade < failures(i)) {
    failedAt.set(i, Date.now());
    throw new Error('as planned');
  }
  done.set(i, (done.get(i) ?? 0) + 1);
}

// add adds all jobs, each again until the server has said that it has it. A second attempt changes nothing, as jobs have ids.
async function add(queue, flow) {
  const until = async (fn) => {
    for (;;) {
      try { return await fn(); } catch { await sleep(100); }
    }
  };
  const pace = flags.seconds * 1000 / jobs;
  let next = 0;
  await Promise.all(Array.from({length: clients}, async () => {
    while (next < jobs) {
      const i = next;
      const parent = i % 25 === 1 && i + 2 < jobs;
      next += parent ? 3 : 1;
      await sleep(began + i * pace - Date.now());
      const {name: title, data, opts} = job(i);
      await until(() => parent ? flow.add({...job(i), children: [job(i + 1), job(i + 2)]}) : queue.add(title, data, opts));
    }
  }));
}

// look asks the server something on a connection of its own.
async function look(ask) {
  const redis = new Redis(connection);
  redis.on('error', () => {});
  try {
    return await ask(redis);
  } finally {
    redis.disconnect();
  }
}

const key = (what) => `bull:${name}:${what}`;
const lists = ['wait', 'active', 'paused'];
const sets = ['delayed', 'prioritized', 'completed', 'failed', 'waiting-children'];

// count says how many jobs each state has, and how many of the delayed ones are due.
const count = () => look(async (redis) => {
  const counts = {};
  for (const list of lists) counts[list] = await redis.llen(key(list));
  for (const set of sets) counts[set] = await redis.zcard(key(set));
  counts.due = await redis.zcount(key('delayed'), 0, Date.now() * 0x1000);
  return counts;
});

// lost says how many jobs are in no state.
const lost = () => look(async (redis) => {
  const there = new Set();
  for (const list of lists) for (const id of await redis.lrange(key(list), 0, -1)) there.add(id);
  for (const set of sets) for (const id of await redis.zrange(key(set), 0, -1)) there.add(id);
  return jobs - there.size;
});

// diagnose prints what the server and the workers wait for.
async function diagnose(workers) {
  await look(async (redis) => {
    log('marker', await redis.zrange(key('marker'), 0, -1, 'WITHSCORES'));
    const delayed = await redis.zrange(key('delayed'), 0, 4, 'WITHSCORES');
    log('first delayed jobs, and in how many ms they are due', delayed.map((v, i) => i % 2 ? Math.floor(v / 0x1000) - Date.now() : v));
    log('clients\n' + await redis.client('LIST'));
  });
  const names = (queue) => queue.toArray().slice(0, 5).map(({command: {name, args}}) => [name, ...args.slice(0, 2)].join(' '));
  for (const {drained, limitUntil, blockUntil, waiting, mainLoopQueue, backend} of workers) {
    log('worker', {drained, limitUntil, blockUntil, waiting: !!waiting, total: mainLoopQueue?.numTotal(), queued: mainLoopQueue?.numQueued()});
    for (const [which, client] of [['main', await backend.client], ['blocking', await backend.blockingClient]]) {
      const {status, retryAttempts, reconnectTimeout, manuallyClosing} = client;
      log(which, 'connection', {status, retryAttempts, reconnecting: !!reconnectTimeout, manuallyClosing},
        'sent', names(client.commandQueue), 'to send', names(client.offlineQueue));
    }
  }
}

async function main() {
  start();
  const queue = new Queue(name, {connection});
  const flow = new FlowProducer({connection});
  const workers = [1, 2].map(() => new Worker(name, run, {connection, concurrency: 25}));
  const errors = new Map();
  for (const each of [queue, flow, ...workers]) {
    each.on('error', ({message}) => {
      const kind = message.replace(/\d+/g, 'N');
      errors.set(kind, (errors.get(kind) ?? 0) + 1);
    });
  }
  add(queue, flow).then(() => log('all are added'));
  for (const s of kills) {
    await sleep(began + s * 1000 - Date.now());
    await kill();
    killed = true;
    log('killed;', done.size, 'jobs have run');
    await sleep(flags.down * 1000);
    start();
    log('started');
  }
  let counts;
  for (let shown = 0;;) {
    await sleep(1000);
    const idle = Date.now() - lastRun;
    counts = await count();
    if (counts.completed + counts.failed === jobs || idle > givenUpAfter) break;
    if (counts.wait + counts.due > 0 && idle > stalledAfter && Date.now() - shown > stalledAfter) {
      shown = Date.now();
      log('no job has run for', Math.round(idle / 1000), 's:', JSON.stringify(counts));
      await diagnose(workers);
    }
  }
  const reasons = {};
  for (const {failedReason} of await queue.getFailed()) reasons[failedReason] = (reasons[failedReason] ?? 0) + 1;
  const gone = await lost();
  log(JSON.stringify(counts), 'early', early, 'lost', gone, 'ran twice', [...done.values()].filter((n) => n > 1).length,
    'failed', JSON.stringify(reasons), 'errors', JSON.stringify(Object.fromEntries(errors)));
  await kill();
  const good = early === 0 && gone === 0 && counts.completed + counts.failed === jobs;
  if (good) for (const left of [dir, `${dir}.log`]) fs.rmSync(left, {recursive: true});
  else log('what is left is in', dir);
  process.exit(good ? 0 : 1);
}

main();
