(* Fibonacci numbers by the definition, with tasks. Below the threshold, a number is computed without further tasks. With a
   low threshold, the tasks cost more than the additions in them. *)

let rec fib n = if n < 2 then n else fib (n - 1) + fib (n - 2)

let rec fib_tasks pool threshold n =
  if n <= threshold then fib n
  else
    let other = Pool.async pool (fun () -> fib_tasks pool threshold (n - 1)) in
    let own = fib_tasks pool threshold (n - 2) in
    own + Pool.await pool other

let () =
  let domains = int_of_string Sys.argv.(1) and threshold = int_of_string Sys.argv.(2) in
  let n = int_of_string Sys.argv.(3) and rounds = int_of_string Sys.argv.(4) in
  let pool = Pool.setup_pool ~num_domains:(domains - 1) () in
  for _ = 1 to rounds do assert (fib_tasks pool threshold n = fib n) done;
  Pool.teardown_pool pool;
  Printf.printf "progress: %d numbers\n" rounds
