(* Programs of two domains that share cache lines: `sharing NAME SECONDS PADDED`, PADDED 0 or 1. Says last how many steps were
   made. *)
let batch = 4096
let over = Atomic.make_contended false

type tally = { mutable count : int; mutable seen : int }

let[@inline never] raise_level level = for _ = 1 to batch do Atomic.incr level done

(* Every other element, so that some lie in one line with a neighbour wherever the array begins. *)
let[@inline never] count_at counts at =
  for i = 1 to batch do
    let here = at + (2 * (i land 3)) in
    counts.(here) <- counts.(here) + i
  done

let[@inline never] count_field tally =
  for i = 1 to batch do
    tally.count <- tally.count + (Sys.opaque_identity i)
  done

let[@inline never] see tally = for i = 1 to batch do tally.seen <- Sys.opaque_identity i done

let[@inline never] look_up table me =
  let at = ref me in
  for i = 1 to batch do at := table.(!at land 511) + i done;
  ignore (Sys.opaque_identity !at)

let () =
  let padded = Sys.argv.(3) = "1" in
  let apart = if padded then 32 else 1 in
  let level () = if padded then Atomic.make_contended 0 else Atomic.make 0 in
  (* Side by side, as they are made. *)
  let first = level () in
  let second = level () in
  let third = level () in
  let levels = [| first; second; third |] in
  let counts = Array.make 4096 0 in
  let table = Array.init 512 (fun i -> i * 7919) in
  let tally = { count = 0; seen = 0 } in
  let between = Array.make 64 0 in
  let other = if padded then { count = 0; seen = 0 } else tally in
  let step me =
    match Sys.argv.(1) with
    | "neighbouring-atomics" -> raise_level levels.(me)
    | "shared-atomic" -> raise_level (if padded then levels.(me) else levels.(0))
    | "array-plain" -> count_at counts (1024 + (me * apart))
    | "fields-plain" -> if me = 0 then count_field tally else see other
    | _ -> look_up table me
  in
  let work me () =
    let made = ref 0 in
    while not (Atomic.get over) do
      step me;
      made := !made + batch
    done;
    !made
  in
  let domains = List.init 2 (fun me -> Domain.spawn (work me)) in
  Unix.sleepf (float_of_string Sys.argv.(2));
  Atomic.set over true;
  let made = List.fold_left (fun sum domain -> sum + Domain.join domain) 0 domains in
  ignore (Sys.opaque_identity between);
  Printf.printf "progress: %d steps\n" made
