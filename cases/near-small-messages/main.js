// Numbers are factored by worker threads: `main.js JOBS`. A message has some numbers in it, and what is done with them takes
// thousands of times as long as to pack it.
'use strict';
const { Worker } = require('node:worker_threads');
const path = require('node:path');

const jobs = Number(process.argv[2] ?? '400');
const WORKERS = 2;

let next = 0;
let done = 0;
let total = 0;
const workers = [];

function give(worker) {
  if (next < jobs) {
    const first = 1_000_003 + 97 * next++;
    worker.postMessage({ numbers: [first, first + 2, first + 6] });
  }
}

for (let i = 0; i < WORKERS; i++) {
  const worker = new Worker(path.join(__dirname, 'factor.js'));
  worker.on('message', ({ factors }) => {
    total += factors;
    done += 1;
    give(worker);
    if (done === jobs) {
      console.log(`factors ${total}`);
      console.log(`progress: ${jobs} jobs`);
      workers.forEach((one) => one.terminate());
    }
  });
  workers.push(worker);
  give(worker);
}
