(* Hands small tasks to a worker through a channel. The argument is the capacity of the channel. With 0, both domains must
   wait for each other for each task. *)

type message = Task of int | Quit

let collatz_steps n =
  let rec go n steps = if n = 1 then steps else go (if n land 1 = 0 then n / 2 else (3 * n) + 1) (steps + 1) in
  go n 0

let () =
  let size = int_of_string Sys.argv.(1) and tasks = int_of_string Sys.argv.(2) in
  let work = Channel.make_bounded size in
  let rec worker sum () =
    match Channel.recv work with Task n -> worker (sum + collatz_steps n) () | Quit -> sum
  in
  let domain = Domain.spawn (worker 0) in
  for n = 1 to tasks do Channel.send work (Task n) done;
  Channel.send work Quit;
  Printf.printf "%d steps\nprogress: %d tasks\n" (Domain.join domain) tasks
