(* Allocates small blocks that die at once, in N workers that have nothing to do with one another.

   Domains share one garbage collector: the first to fill its minor heap stops all others. Processes have one each. *)

let allocate blocks = for _ = 1 to blocks do ignore (Sys.opaque_identity (ref ())) done

let in_domains workers work =
  let others = List.init (workers - 1) (fun _ -> Domain.spawn work) in
  work ();
  List.iter Domain.join others

let in_processes workers work =
  let start _ = match Unix.fork () with 0 -> work (); Unix._exit 0 | child -> child in
  let others = List.init (workers - 1) start in
  work ();
  List.iter (fun child -> assert (snd (Unix.waitpid [] child) = Unix.WEXITED 0)) others

let () =
  let workers = int_of_string Sys.argv.(2) and blocks = int_of_string Sys.argv.(3) in
  let run = if Sys.argv.(1) = "domains" then in_domains else in_processes in
  run workers (fun () -> allocate blocks);
  Printf.printf "progress: %d blocks\n" (workers * blocks)
