(* A small task pool over domains: tasks with async and await, parallel_for, parallel_scan.

   Each domain has a queue of its own; it takes its newest task, and who has none takes another's oldest. Whoever awaits
   works meanwhile. It does not move a task once it runs, so tasks must not wait for one another except by await. *)

type task = unit -> unit

(* A ring: the owner pushes and pops at its end, thieves take at its front. *)
type queue = { lock : Mutex.t; mutable ring : task array; mutable front : int; mutable length : int }

type pool = {
  queues : queue array;
  queued : int Atomic.t;
  closed : bool Atomic.t;
  idle_lock : Mutex.t;
  idle : Condition.t;
  sleepers : int Atomic.t;
  mutable domains : unit Domain.t array;
}

type 'a state = Pending | Done of 'a | Raised of exn * Printexc.raw_backtrace

(* [awaited] is set by whoever goes to sleep until it is done. *)
type 'a promise = { state : 'a state Atomic.t; awaited : bool Atomic.t }

exception Closed

let nothing () = ()
let own_queue = Domain.DLS.new_key (fun () -> 0)

let new_queue () = { lock = Mutex.create (); ring = Array.make 64 nothing; front = 0; length = 0 }

let grow queue =
  let old = Array.length queue.ring in
  queue.ring <- Array.init (2 * old) (fun i -> if i < old then queue.ring.((queue.front + i) mod old) else nothing);
  queue.front <- 0

let wake_sleepers pool wake =
  if Atomic.get pool.sleepers > 0 then begin
    Mutex.lock pool.idle_lock;
    wake pool.idle;
    Mutex.unlock pool.idle_lock
  end

let push pool task =
  let queue = pool.queues.(Domain.DLS.get own_queue) in
  Mutex.lock queue.lock;
  if queue.length = Array.length queue.ring then grow queue;
  queue.ring.((queue.front + queue.length) mod Array.length queue.ring) <- task;
  queue.length <- queue.length + 1;
  Mutex.unlock queue.lock;
  Atomic.incr pool.queued;
  wake_sleepers pool Condition.signal

let take_at queue place =
  let task = queue.ring.(place) in
  queue.ring.(place) <- nothing;
  queue.length <- queue.length - 1;
  Some task

let newest queue = take_at queue ((queue.front + queue.length - 1) mod Array.length queue.ring)

let oldest queue =
  let place = queue.front in
  queue.front <- (place + 1) mod Array.length queue.ring;
  take_at queue place

let locked_take queue take =
  Mutex.lock queue.lock;
  let task = if queue.length = 0 then None else take queue in
  Mutex.unlock queue.lock;
  task

let take pool =
  let own = Domain.DLS.get own_queue and all = Array.length pool.queues in
  let rec steal nth =
    if nth = all then None
    else
      let victim = pool.queues.((own + nth) mod all) in
      (* A look without the lock: at worst it is too old, and the next round sees more. *)
      match if victim.length = 0 then None else locked_take victim oldest with
      | None -> steal (nth + 1)
      | found -> found
  in
  if Atomic.get pool.queued = 0 then None
  else
    let found = match locked_take pool.queues.(own) newest with None -> steal 1 | found -> found in
    if found <> None then Atomic.decr pool.queued;
    found

(* Sleeps until there is a task, or [over ()]. *)
let sleep pool over =
  Mutex.lock pool.idle_lock;
  Atomic.incr pool.sleepers;
  while Atomic.get pool.queued <= 0 && not (over ()) do Condition.wait pool.idle pool.idle_lock done;
  Atomic.decr pool.sleepers;
  Mutex.unlock pool.idle_lock

let rec work pool over =
  if not (over ()) then begin
    (match take pool with Some task -> task () | None -> sleep pool over);
    work pool over
  end

let setup_pool ~num_domains () =
  let pool =
    { queues = Array.init (num_domains + 1) (fun _ -> new_queue ());
      queued = Atomic.make 0; closed = Atomic.make false; idle_lock = Mutex.create (); idle = Condition.create ();
      sleepers = Atomic.make 0; domains = [||] }
  in
  let worker number () =
    Domain.DLS.set own_queue number;
    work pool (fun () -> Atomic.get pool.closed)
  in
  pool.domains <- Array.init num_domains (fun nth -> Domain.spawn (worker (nth + 1)));
  pool

let teardown_pool pool =
  Atomic.set pool.closed true;
  wake_sleepers pool Condition.broadcast;
  Array.iter Domain.join pool.domains;
  pool.domains <- [||]

let async pool f =
  if Atomic.get pool.closed then raise Closed;
  let promise = { state = Atomic.make Pending; awaited = Atomic.make false } in
  let run () =
    let state = try Done (f ()) with e -> Raised (e, Printexc.get_raw_backtrace ()) in
    Atomic.set promise.state state;
    if Atomic.get promise.awaited then wake_sleepers pool Condition.broadcast
  in
  push pool run;
  promise

let is_done promise = match Atomic.get promise.state with Pending -> false | Done _ | Raised _ -> true

let await pool promise =
  let rec finish () =
    if not (is_done promise) then begin
      (match take pool with
      | Some task -> task ()
      | None ->
        Atomic.set promise.awaited true;
        sleep pool (fun () -> is_done promise));
      finish ()
    end
  in
  finish ();
  match Atomic.get promise.state with
  | Done value -> value
  | Raised (e, backtrace) -> Printexc.raise_with_backtrace e backtrace
  | Pending -> assert false

(* Halves the range until it is no larger than a chunk. Returns when all of it is done, also if a part raised. *)
let parallel_for ?chunk_size ~start ~finish ~body pool =
  let default = max 1 ((finish - start + 1) / (8 * Array.length pool.queues)) in
  let chunk = max 1 (Option.value chunk_size ~default) in
  let rec range first last =
    if last - first < chunk then for i = first to last do body i done
    else begin
      let middle = first + ((last - first) / 2) in
      let upper = async pool (fun () -> range (middle + 1) last) in
      match range first middle with
      | () -> await pool upper
      | exception e -> (try await pool upper with _ -> ()); raise e
    end
  in
  if start <= finish then range start finish

(* Inclusive: element i of the result is the sum, by [op], of elements 0 to i. *)
let parallel_scan pool op elements =
  let n = Array.length elements in
  let result = Array.copy elements in
  let parts = min n (Array.length pool.queues) in
  let first part = part * n / max 1 parts in
  let scan part =
    for i = first part + 1 to first (part + 1) - 1 do result.(i) <- op result.(i - 1) result.(i) done
  in
  let add_before part =
    let before = result.(first part - 1) in
    for i = first part to first (part + 1) - 2 do result.(i) <- op before result.(i) done
  in
  parallel_for pool ~chunk_size:1 ~start:0 ~finish:(parts - 1) ~body:scan;
  (* The last element of each part first, in order: then the others need no more than the part before. *)
  for part = 1 to parts - 1 do
    let last = first (part + 1) - 1 in
    result.(last) <- op result.(first part - 1) result.(last)
  done;
  parallel_for pool ~chunk_size:1 ~start:1 ~finish:(parts - 1) ~body:add_before;
  result
