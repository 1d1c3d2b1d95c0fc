(* What pool.ml and channel.ml promise. Prints a line for each promise; ends with 1 if one is broken. *)

let failed = ref false

let check name holds =
  if not holds then failed := true;
  Printf.printf "%s: %s\n%!" name (if holds then "holds" else "BROKEN")

exception Odd of int

let raised f = match f () with _ -> None | exception e -> Some e

let loops pool =
  let seen = Array.make 1000 0 in
  Pool.parallel_for pool ~start:0 ~finish:999 ~body:(fun i -> seen.(i) <- seen.(i) + 1);
  check "parallel_for visits each index once, and is over when it returns" (Array.for_all (( = ) 1) seen);
  Pool.parallel_for pool ~chunk_size:7 ~start:3 ~finish:13 ~body:(fun i -> seen.(i) <- 5);
  check "both ends belong to the range" (seen.(3) = 5 && seen.(13) = 5 && seen.(2) = 1 && seen.(14) = 1);
  Pool.parallel_for pool ~start:5 ~finish:4 ~body:(fun _ -> seen.(0) <- 9);
  check "an empty range does nothing" (seen.(0) = 1);
  let nested = Atomic.make 0 in
  Pool.parallel_for pool ~chunk_size:1 ~start:1 ~finish:20 ~body:(fun _ ->
      Pool.parallel_for pool ~chunk_size:1 ~start:1 ~finish:20 ~body:(fun _ -> Atomic.incr nested));
  check "loops may be nested" (Atomic.get nested = 400);
  let visited = Atomic.make 0 in
  let body i = Atomic.incr visited; if i = 10 then raise (Odd i) in
  let e = raised (fun () -> Pool.parallel_for pool ~chunk_size:1 ~start:0 ~finish:63 ~body) in
  check "parallel_for raises what its body raised, after all chunks" (e = Some (Odd 10) && Atomic.get visited = 64)

let tasks pool =
  check "await gives the result" (Pool.await pool (Pool.async pool (fun () -> 6 * 7)) = 42);
  let odd = Pool.async pool (fun () -> raise (Odd 3)) in
  check "await raises what the task raised" (raised (fun () -> Pool.await pool odd) = Some (Odd 3));
  check "and again when it is awaited again" (raised (fun () -> Pool.await pool odd) = Some (Odd 3));
  let rec fib n = if n < 2 then n else
    let other = Pool.async pool (fun () -> fib (n - 1)) in
    let own = fib (n - 2) in
    own + Pool.await pool other
  in
  check "tasks may await tasks" (fib 18 = 2584)

let scans pool =
  let holds n =
    let elements = Array.init n (fun i -> Printf.sprintf "%d," i) in
    let sum = ref "" in
    Pool.parallel_scan pool ( ^ ) elements = Array.map (fun e -> sum := !sum ^ e; !sum) elements
  in
  check "parallel_scan keeps the order, for any length" (List.for_all holds [ 0; 1; 2; 3; 4; 5; 17; 100 ])

let polls () =
  let open Channel in
  let meeting = make_bounded 0 and two = make_bounded 2 and all = make_unbounded () in
  check "nobody there: send_poll to size 0 is refused" (not (send_poll meeting "hello"));
  check "nothing sent: recv_poll has none" (recv_poll meeting = None && recv_poll two = None);
  let sent = List.map (send_poll two) [ 1; 2; 3 ] in
  check "a bounded channel takes as many as its size" (sent = [ true; true; false ]);
  check "what was refused is not there" (recv_poll two = Some 1 && recv_poll two = Some 2 && recv_poll two = None);
  check "an unbounded one takes all" (List.for_all (send_poll all) (List.init 1000 Fun.id));
  check "in order" (List.init 1000 (fun _ -> recv all) = List.init 1000 Fun.id)

let meetings () =
  let open Channel in
  let meeting = make_bounded 0 in
  let received = Atomic.make false in
  let sender = Domain.spawn (fun () -> send meeting 1; Atomic.get received) in
  (* Until it is taken, the other is in send: its value is read before it can return. *)
  let rec take () = match recv_poll meeting with Some value -> value | None -> Domain.cpu_relax (); take () in
  Atomic.set received true;
  check "size 0: send returns when somebody has received" (take () = 1 && Domain.join sender);
  let receiver = Domain.spawn (fun () -> recv meeting) in
  send meeting 2;
  check "size 0: a receiver that came first gets it" (Domain.join receiver = 2)

let crowds size =
  let open Channel in
  let channel = if size < 0 then make_unbounded () else make_bounded size in
  let each = 500 in
  let send_from base () = for i = 0 to each - 1 do send channel (base + i) done in
  let receive () = List.init each (fun _ -> recv channel) in
  let senders = List.map (fun base -> Domain.spawn (send_from base)) [ 0; 10_000 ] in
  let receivers = List.init 2 (fun _ -> Domain.spawn receive) in
  List.iter Domain.join senders;
  let got = List.map Domain.join receivers in
  let from base values = List.filter (fun v -> v / 10_000 = base / 10_000) values in
  let ordered values = List.sort compare values = values in
  let wanted = List.concat_map (fun base -> List.init each (( + ) base)) [ 0; 10_000 ] in
  check (Printf.sprintf "size %d: many senders and receivers lose and double nothing" size)
    (List.sort compare (List.concat got) = wanted);
  check (Printf.sprintf "size %d: each receiver sees each sender's order" size)
    (List.for_all (fun values -> ordered (from 0 values) && ordered (from 10_000 values)) got)

let () =
  List.iter (fun num_domains ->
      let pool = Pool.setup_pool ~num_domains () in
      loops pool;
      tasks pool;
      scans pool;
      Pool.teardown_pool pool;
      check "a pool torn down takes no more" (raised (fun () -> Pool.async pool Fun.id) = Some Pool.Closed))
    [ 0; 1; 3 ];
  polls ();
  meetings ();
  List.iter crowds [ 0; 1; 10; -1 ];
  if !failed then exit 1
