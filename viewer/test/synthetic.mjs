// A made-up recording and its answers, in the form of docs/viewer-api.md: for tests that need no holdup. Deterministic.

const CLASSES = [
  ["useful", "running"], ["kernel", "running"], ["lock-wait", "wait"], ["join-wait", "wait"], ["work-wait", "wait"], ["io-wait", "wait"],
  ["net-wait", "wait"], ["pipe-wait", "wait"], ["sleep", "wait"], ["child-wait", "wait"], ["fault-wait", "wait"], ["kernel-wait", "wait"],
  ["stopped", "wait"], ["run-queue", "queue"], ["stolen", "stolen"], ["unknown", "unknown"],
].map(([name, kind], rank) => ({ name, kind, rank }));

const CELLS = 512;
export const HOSTILE = "<img src=x onerror=alert(1)>\u001b[31m\u202eevil";

/** A small generator: the same numbers in each run. */
function numbers(seed) {
  let state = seed >>> 0;
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32;
  };
}

/** Slices of one thread: `[start, end, class, cpu]`. */
function livesOf(thread, wall, mean, random) {
  const slices = [];
  const cycle = [0, 13, 0, 2, 13, 1, 0, 4];
  for (let at = 0, n = thread; at < wall; n += 1) {
    const end = Math.min(wall, at + Math.max(2000, Math.round(mean * 2 * random())));
    const index = cycle[n % cycle.length];
    slices.push([at, end, index, index === 0 || index === 1 ? thread % 2 : -1]);
    at = end;
  }
  return slices;
}

/** A recording with this number of threads, this length, and slices of this mean length. */
export function synthetic({ threads = 4, wall = 2e9, mean = 150_000, compared = false } = {}) {
  const random = numbers(42);
  const lives = Array.from({ length: threads }, (_, thread) => livesOf(thread, wall, mean, random));
  const base = 2 ** Math.ceil(Math.log2(Math.max(wall, CELLS)));
  const levels = Math.max(0, Math.floor(Math.log2(base / CELLS)) - 6);
  return { wall, lives, compared, zoom: { base_ns: base, cells: CELLS, level_max: levels } };
}

function sums(slices, from, to) {
  const classes = CLASSES.map(() => 0);
  for (const [start, end, index] of slices) {
    const inside = Math.min(end, to) - Math.max(start, from);
    if (inside > 0) classes[index] += inside;
  }
  return classes;
}

const queue = { own_ns: 0, others_ns: 0, throttled_ns: 0, idle_ns: 0 };

function ledger(lists, split_known = true) {
  const classes = CLASSES.map((_, at) => lists.reduce((all, one) => all + one[at], 0));
  return { total_ns: classes.reduce((a, b) => a + b, 0), classes, run_queue: queue, split_error_ns: 0, split_known, samples: 100 };
}

/** The answer to `api/summary`. */
export function summary(recording) {
  const { wall, lives, zoom, compared } = recording;
  const worst = lives.flatMap((slices, thread) => slices.filter((one) => one[2] === 2).map(([start, end]) => ({ thread, start, end })))
    .sort((a, b) => b.end - b.start - (a.end - a.start)).slice(0, 5);
  const names = ["main", "worker 1", "worker 2", HOSTILE];
  return {
    api: 1, holdup: "0.1.0", command: ["./words", "--threads", String(lives.length)], mode: "run", exit_status: 0,
    host: { name: "made-up", kernel: "6.1", cpus: 2, cpus_allowed: 2, cpu_model: "", memory_bytes: 1 }, start_unix_ns: 0, wall_ns: wall,
    backend: "bpf", backend_reason: "", recovered: false, zoom, classes: CLASSES,
    ledger: ledger(lives.map((slices) => sums(slices, 0, wall))),
    threads: [
      ...lives.map((slices, id) => ({
        id, tid: 1000 + id, name: names[id] ?? `worker ${id}`, process: 0, target: true, start_ns: 0, end_ns: wall, slices: slices.length,
        classes: sums(slices, 0, wall), run_queue: queue, blocked: 1, preempted: 1, migrations: 0,
      })),
      ...(lives.length > 0 ? [{ id: lives.length, tid: 77, name: "neighbour", process: 1, target: false, start_ns: 0, end_ns: wall, slices: 1 }] : []),
    ],
    processes: [{ id: 0, pid: 1000, name: "words", target: true, parent: null }, { id: 1, pid: 77, name: "neighbour", target: false, parent: null }],
    cpus: [0, 1].map((cpu) => ({ cpu, target_ns: wall / 2, others_ns: 0, stolen_ns: 0, idle_ns: wall / 2, switches: 10, others: [] })),
    findings: worst.length === 0 ? [] : [
      {
        rule: "lock-contention", subject: `futex 0x7f00 in ${HOSTILE}`, summary: ["Threads waited 240 ms for one lock."], cost_ns: 24e7,
        gain_text: "run 12–31 % shorter", confidence: "high", advice: ["Lock a shard, not the whole table."],
        evidence: worst.map(({ thread, start, end }) => ({ table: "slices", thread, start_ns: start, duration_ns: end - start, row: -1, note: "waited" })),
      },
      { rule: "oversubscription", subject: "4 threads on 2 CPUs", summary: ["More threads than CPUs."], cost_ns: 1e8, gain_text: "run 2–5 % shorter",
        confidence: "medium", advice: [], evidence: [] },
    ],
    skipped: [{ rule: "false-sharing", reason: "no lines were sampled" }], losses: [], loss: { events: 0, uncounted: 0 }, cost: { percent: 0.9 },
    sources: [], parallelism: { running_mean: 1.2, wanting_mean: 1.9 },
    tables: lives.length > 0 ? [{ name: "threads", label: "Threads" }, { name: "locks", label: "Locks" }, { name: "calls", label: "Calls" }] : [],
    flames: [{ kind: "on-cpu", label: "on CPU" }, { kind: "off-cpu", label: "off CPU" }], thinned: [],
    against: compared ? { command: ["./words", "--old"], wall_ns: 3e9 } : null,
  };
}

/** One lane of one tile: long slices whole, short ones merged by cell. */
export function lane(recording, thread, level, tile) {
  const length = recording.zoom.base_ns / 2 ** level;
  const [from, to, cell] = [tile * length, (tile + 1) * length, length / CELLS];
  const out = { thread, complete: true, start: [], end: [], class: [], row: [], cpu: [], mix: [] };
  let merged = null;
  const flush = () => {
    if (!merged) return;
    const pairs = [...merged.by].sort((a, b) => a[0] - b[0]);
    push(merged.start, merged.end, pairs.reduce((a, b) => (b[1] > a[1] ? b : a))[0], -1, -1, [merged.slices, ...pairs.flat()]);
    merged = null;
  };
  const push = (start, end, index, row, cpu, mix) => {
    out.start.push(start); out.end.push(end); out.class.push(index); out.row.push(row); out.cpu.push(cpu); out.mix.push(mix);
  };
  (recording.lives[thread] ?? []).forEach(([start, end, index, cpu], row) => {
    if (end <= from || start >= to) return;
    if (end - start >= cell) {
      flush();
      push(start, end, index, row, cpu, null);
      return;
    }
    out.complete = false;
    if (merged && Math.floor(merged.start / cell) !== Math.floor(start / cell)) flush();
    merged ??= { start, end, slices: 0, by: new Map() };
    merged.end = end;
    merged.slices += 1;
    merged.by.set(index, (merged.by.get(index) ?? 0) + end - start);
  });
  flush();
  return out;
}

/** Threads running and waiting for a CPU, by cell. */
export function counters(recording, level, tile) {
  const length = recording.zoom.base_ns / 2 ** level;
  const [from, cell] = [tile * length, length / CELLS];
  const cells = Math.max(0, Math.min(CELLS, Math.ceil((recording.wall - from) / cell)));
  const [running, waiting] = [new Array(cells).fill(0), new Array(cells).fill(0)];
  for (const slices of recording.lives) {
    for (const [start, end, index] of slices) {
      const list = index <= 1 ? running : index === 13 ? waiting : null;
      if (!list || end <= from) continue;
      for (let at = Math.max(0, Math.floor((start - from) / cell)); at < cells && from + at * cell < end; at += 1) {
        list[at] += (Math.min(end, from + (at + 1) * cell) - Math.max(start, from + at * cell)) / cell;
      }
    }
  }
  return {
    level, tile, start_ns: from, end_ns: from + length, cell_ns: cell,
    series: [{ name: "running", unit: "threads", values: running }, { name: "run-queue", unit: "threads", values: waiting }],
  };
}

/** Two depths of spans, all of them in every tile. */
function spans(recording, thread) {
  const long = Array.from({ length: 20 }, (_, at) => [(at * recording.wall) / 20, ((at + 0.8) * recording.wall) / 20, 0, 0]);
  const short = long.map(([start, end]) => [start + (end - start) / 4, start + (end - start) / 2, 1, 1]);
  const all = [...long, ...short].map((one) => one.map(Math.round));
  const [start, end, name, depth] = [0, 1, 2, 3].map((at) => all.map((one) => one[at]));
  return { thread, complete: true, start, end, name, depth, count: all.map(() => 1) };
}

const frame = (name, kind = "user") => ({ name, module: "/usr/bin/words", file: "words.c", line: 12, inlined: false, kind });

/** The response to `api/slice`. Null if there is no such slice. */
export function slice(recording, thread, which) {
  const slices = recording.lives[thread] ?? [];
  const row = which.row ?? slices.findIndex(([start, end]) => start <= which.at && which.at < end);
  const found = slices[row];
  if (!found) return null;
  const [start, end, index, cpu] = found;
  const blocked = index === 2 || index === 4;
  const other = (thread + 1) % recording.lives.length;
  const holder = (recording.lives[other] ?? []).findIndex(([from, to]) => from <= end - 1 && end - 1 < to);
  const link = { thread, start_ns: start, end_ns: end, row, class: index, basis: "", text: `was in ${CLASSES[index].name}` };
  return {
    thread, row, start_ns: start, end_ns: end, state: blocked ? "blocked" : index === 13 ? "runnable" : "running", class: index,
    cpu: index === 13 ? thread % 2 : cpu, occupied_cpu: index === 13 ? (thread + 1) % 2 : -1, stolen_ns: 0, previous: row - 1, next: row + 1 < slices.length ? row + 1 : -1,
    wait: blocked ? { reason: "lock", object_kind: "futex", object: "0x7f00", syscall: "futex", name: "futex 0x7f00 in words" } : null,
    stack: blocked ? [frame("pthread_mutex_lock"), frame("count_words"), frame(HOSTILE), frame("main")] : [],
    stack_from: blocked ? "blocked" : "", samples: blocked || index === 13 ? [] : [{ samples: 3, name: "count_words" }],
    waker: blocked ? { thread: other, context: "thread", at_ns: end, cpu: 0, stack: [frame("pthread_mutex_unlock"), frame("main")] } : null,
    occupants: index === 13 ? [{ thread: other, ns: end - start, at_ns: start }] : [],
    why: blocked
      ? [link, { ...link, thread: other, row: holder, basis: "owner-word", text: "had the lock", class: 0 }]
      : [link],
  };
}

/** A small call tree. */
export function flame(kind, fn, against) {
  const names = fn ? [fn, "hash", "memcmp"] : ["main", "count_words", "hash", HOSTILE, "entry_SYSCALL_64"];
  const n = fn ? { name: [0, 1, 2], parent: [-1, 0, 1], ns: [6e8, 4e8, 1e8], own: [2e8, 3e8, 1e8], kernel: [0, 0, 0] }
    : { name: [0, 1, 2, 3, 4], parent: [-1, 0, 1, 1, 0], ns: [1e9, 8e8, 4e8, 1e8, 1e8], own: [1e8, 3e8, 4e8, 1e8, 1e8], kernel: [0, 0, 0, 0, 1] };
  return {
    kind, total_ns: fn ? 6e8 : 1e9, error_ns: 1e7, samples: 1000, slices: 0, slices_with_stack: 0, names, modules: names.map(() => "/usr/bin/words"),
    name: n.name, parent: n.parent, own_ns: n.own, ns: n.ns, kernel: n.kernel,
    ...(against && { before_ns: n.ns.map((ns, at) => (at % 2 === 0 ? ns / 2 : ns * 1.5)), before_total_ns: 7e8 }),
  };
}

/** A table. */
export function table(recording, name) {
  if (name === "locks") {
    return {
      name, label: "Locks", columns: [{ name: "name", label: "lock", unit: "text" }, { name: "wait_ns", label: "waited", unit: "ns" }, { name: "waits", label: "waits", unit: "count" }],
      rows: [["futex 0x7f00", 24e7, 1200]], places: [{ thread: 1, start_ns: 1e8, end_ns: 1.01e8 }],
    };
  }
  if (name === "calls") {
    return {
      name, label: "Calls", note: "All calls were counted.",
      columns: [{ name: "name", label: "syscall", unit: "text" }, { name: "count", label: "calls", unit: "count" }, { name: "times", label: "times", unit: "histogram-ns" }, { name: "asked", label: "sizes", unit: "histogram-bytes" }],
      rows: [["read", 300, [[1024, 2048, 100], [8192, 16384, 200]], [[4096, 8192, 300]]], ["close", 2, [[512, 1024, 2]], null]],
      places: [{ thread: 1, start_ns: 1e8, end_ns: 1.01e8 }, null],
    };
  }
  const { threads, wall_ns } = summary(recording);
  const own = threads.filter((one) => one.target);
  return {
    name, label: "Threads",
    columns: [{ name: "thread", label: "thread", unit: "thread" }, { name: "useful_ns", label: "useful", unit: "ns" }, { name: "share", label: "share", unit: "share" }],
    rows: own.map((one) => [one.id, one.classes[0], one.classes[0] / wall_ns]),
    places: own.map((one) => ({ thread: one.id, start_ns: 0, end_ns: wall_ns })),
  };
}

const whole = (text) => (text === null ? null : Number(text));
const list = (text) => (text ? text.split(",").map(Number) : []);

/** Responds to a request like the server. Null if the item does not exist. */
export function answer(recording, path, query) {
  const [level, tile] = [whole(query.get("level")), whole(query.get("tile"))];
  const threads = list(query.get("threads"));
  const everyone = threads.length > 0 ? threads : recording.lives.map((_, id) => id);
  const [from, to] = [whole(query.get("from")) ?? 0, whole(query.get("to")) ?? recording.wall];
  switch (path.split("/")[0]) {
    case "summary": return summary(recording);
    case "lanes": return { level, tile, lanes: threads.map((thread) => lane(recording, thread, level, tile)) };
    case "cpus": return {
      level, tile, cpus: list(query.get("cpus")).map((cpu) => {
        const rows = lane(recording, cpu, level, tile);
        return { cpu, complete: rows.complete, start: rows.start, end: rows.end, thread: rows.row.map((row, at) => (row < 0 ? -1 : rows.class[at] === 13 ? recording.lives.length : cpu)),
          mix: rows.mix.map((one, at) => (one ? [one[0], (rows.end[at] - rows.start[at]) / 2, 0] : null)) };
      }),
    };
    case "counters": return counters(recording, level, tile);
    case "samples": return { level, tile, names: ["main"], lanes: threads.map((thread) => ({ thread, every: 1, at: [1e6, 5e6, 9e6], kernel: [0, 1, 0], leaf: [0, 0, 0] })) };
    case "spans": return { level, tile, names: ["request", HOSTILE], kinds: ["user", "gc-work"], lanes: threads.filter((one) => one === 1).map((thread) => spans(recording, thread)) };
    case "wakeups": return { left_out: 0, at: [to - 1], waker: [(threads[0] + 1) % recording.lives.length], wakee: [threads[0]], cpu: [0], context: [0] };
    case "slice": return slice(recording, Number(query.get("thread")), query.has("row") ? { row: whole(query.get("row")) } : { at: whole(query.get("at")) });
    case "ledger": {
      const lists = everyone.map((id) => sums(recording.lives[id] ?? [], from, to));
      return { ...ledger(lists), threads: lists.map((classes, at) => ({ id: everyone[at], classes })) };
    }
    case "flame": return flame(query.get("kind"), query.get("function"), query.has("against"));
    case "tables": return table(recording, path.split("/")[1]);
    case "search": {
      const needle = (query.get("q") ?? "").toLowerCase();
      const holds = (name) => name.toLowerCase().includes(needle);
      const found = summary(recording).threads.filter((one) => holds(one.name));
      const { start, end } = spans(recording, 1);
      return { results: [
        ...found.map((one) => ({ kind: "thread", name: one.name, detail: `tid ${one.tid}`, thread: one.id, start_ns: one.start_ns, end_ns: one.end_ns })),
        ...(holds("request") ? [{ kind: "span", name: "request", detail: `${start.length} spans`, thread: 1, start_ns: start[0], end_ns: end[0] }] : []),
      ] };
    }
    case "annotate": return { function: query.get("function"), module: "/usr/bin/words", total_ns: 1e9, instructions: [
      { address: 4096, text: "mov (%rdi),%rax", branch_to: null, own_ns: 0, samples: 0, file: null, line: null, below_ns: 0 },
      { address: 4100, text: "cmp %rax,%rbx", branch_to: null, own_ns: 3e8, samples: 300, file: "words.c", line: 12, below_ns: 0 } ] };
    default: return null;
  }
}

/** Content of an `--html` file of the recording: few levels, as if the rest had been left out. */
export function bundle(recording) {
  const out = { api: 1, summary: { ...summary(recording), thinned: ["Detail below a millisecond was left out."] } };
  const { base_ns, level_max } = recording.zoom;
  for (let level = 0; level <= Math.min(3, level_max); level += 1) {
    for (let tile = 0; tile * (base_ns / 2 ** level) < recording.wall; tile += 1) {
      recording.lives.forEach((_, thread) => (out[`lanes/${thread}/${level}/${tile}`] = lane(recording, thread, level, tile)));
      out[`counters/${level}/${tile}`] = counters(recording, level, tile);
    }
  }
  if (recording.lives.length > 1) out["spans/1/0/0"] = { names: ["request", HOSTILE], kinds: ["user", "gc-work"], lanes: [spans(recording, 1)] };
  for (const name of ["threads", "locks", "calls"]) out[`tables/${name}`] = table(recording, name);
  out["flames/on-cpu"] = flame("on-cpu");
  for (const { thread, start_ns } of out.summary.findings.flatMap((one) => one.evidence)) {
    const found = slice(recording, thread, { at: start_ns });
    if (found) out[`slices/${thread}/${found.row}`] = found;
  }
  return out;
}
