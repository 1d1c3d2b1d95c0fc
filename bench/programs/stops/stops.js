// Two workers beside the main thread, each with a heap that is collected all the time.
const { Worker, isMainThread } = require("worker_threads");
const tree = (depth) => (depth ? { left: tree(depth - 1), right: tree(depth - 1) } : {});
if (isMainThread) for (let i = 0; i < 2; i++) new Worker(__filename);
const keep = [];
for (let i = 0; i < 150; i++) {
  keep.push(tree(14));
  if (keep.length > 12) keep.shift();
}
