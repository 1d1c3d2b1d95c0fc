// Orders are weighed by worker threads, by a table of rates: `main.js each|once JOBS`.
//
// `each`: every message to a worker contains the table, which is serialized and deserialized each time. `once`: a worker gets
// the table when it is started.
'use strict';
const { Worker } = require('node:worker_threads');
const path = require('node:path');

const [how = 'each', jobs = '120'] = process.argv.slice(2);
const WORKERS = 2;
const ORDERS = 1000;

const rates = Array.from({ length: 25000 }, (_, i) => ({ code: `z${i}`, grams: 1 + ((i * 7919) % 97), zone: i % 13 }));

function orders(job) {
  let x = (job * 2654435761 + 1) >>> 0;
  return Array.from({ length: ORDERS }, () => {
    x = (Math.imul(x, 1664525) + 1013904223) >>> 0;
    return { rate: x % rates.length, pieces: 1 + (x >>> 20) };
  });
}

let next = 0;
let done = 0;
let total = 0;
const workers = [];

function give(worker) {
  if (next < Number(jobs)) {
    worker.postMessage({ orders: orders(next++), rates: how === 'each' ? rates : undefined });
  }
}

for (let i = 0; i < WORKERS; i++) {
  const worker = new Worker(path.join(__dirname, 'weigh.js'), { workerData: { rates: how === 'once' ? rates : undefined } });
  worker.on('message', (grams) => {
    total += grams;
    done += 1;
    give(worker);
    if (done === Number(jobs)) {
      console.log(`grams ${total}`);
      console.log(`progress: ${jobs} jobs`);
      workers.forEach((one) => one.terminate());
    }
  });
  workers.push(worker);
  give(worker);
}
