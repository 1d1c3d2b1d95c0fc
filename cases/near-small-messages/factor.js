'use strict';
const { parentPort } = require('node:worker_threads');

function factors(number) {
  let found = 0;
  for (let by = 1; by <= number; by++) if (number % by === 0) found++;
  return found;
}

parentPort.on('message', ({ numbers }) => {
  parentPort.postMessage({ factors: numbers.reduce((sum, number) => sum + factors(number), 0) });
});
