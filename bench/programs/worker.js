// Three workers that compute, hash and wait.
const { Worker, isMainThread } = require("worker_threads");
const crypto = require("crypto");

function fibonacci(n) {
  return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2);
}

if (isMainThread) {
  for (let i = 0; i < 3; i++) new Worker(__filename);
} else {
  const cell = new Int32Array(new SharedArrayBuffer(4));
  let total = 0;
  for (let i = 0; i < 300; i++) {
    total += fibonacci(22);
    crypto.createHash("sha256").update("x".repeat(10000)).digest("hex");
    Atomics.wait(cell, 0, 0, 1);
  }
  console.log(total);
}
