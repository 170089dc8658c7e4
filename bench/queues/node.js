// Measures Bull or BullMQ: node node.js LIBRARY PORT JOBS CLIENTS BYTES prints how many ms it takes to add the jobs, and to have them done.
const [library, port, jobs, clients, bytes] = [process.argv[2], ...process.argv.slice(3).map(Number)];
const server = {host: '127.0.0.1', port};
const data = {payload: 'x'.repeat(bytes)};
const options = {delay: 1, removeOnComplete: true};

// open gives a queue: what adds a job, and what has workers do all and returns a promise of the end of all jobs.
function open() {
  if (library === 'bull') {
    const Queue = require('bull');
    const queue = new Queue('jobs', {redis: server});
    return {
      add: () => queue.add(data, options),
      work: () => ended((done) => {
        queue.on('completed', done);
        queue.process(clients, async () => {});
      }),
    };
  }
  const {Queue, Worker} = require('bullmq');
  const queue = new Queue('jobs', {connection: server});
  return {
    add: () => queue.add('job', data, options),
    work: () => ended((done) => {
      new Worker('jobs', async () => {}, {connection: {...server, maxRetriesPerRequest: null}, concurrency: clients}).on('completed', done);
    }),
  };
}

function ended(start) {
  return new Promise((resolve) => {
    let left = jobs;
    start(() => { if (--left === 0) resolve(); });
  });
}

async function main() {
  const queue = open();
  const began = performance.now();
  let next = 0;
  await Promise.all(Array.from({length: clients}, async () => {
    while (next++ < jobs) await queue.add();
  }));
  const added = performance.now();
  await queue.work();
  console.log(added - began, performance.now() - added);
  process.exit(0);
}

main().catch((err) => {
  console.error(err);
  process.exit(1);
});
