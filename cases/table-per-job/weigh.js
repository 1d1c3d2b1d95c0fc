'use strict';
const { parentPort, workerData } = require('node:worker_threads');

parentPort.on('message', (job) => {
  const rates = job.rates ?? workerData.rates;
  let grams = 0;
  for (const { rate, pieces } of job.orders) grams += rates[rate].grams * pieces;
  parentPort.postMessage(grams);
});
