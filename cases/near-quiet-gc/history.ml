(* One domain keeps a large history and collects a lot. The other one adds numbers up and allocates nothing, but its loop
   can be stopped at any moment: it comes at once when a collection asks for it. *)

let sum_up until_over =
  let sum = ref 0 and rounds = ref 0 in
  while not (Atomic.get until_over) do
    for i = 1 to 1000 do sum := (!sum * 31) + i done;
    incr rounds
  done;
  (!sum, !rounds)

let () =
  let texts = int_of_string Sys.argv.(1) in
  let over = Atomic.make false in
  let other = Domain.spawn (fun () -> sum_up over) in
  let history = Array.make 200_000 [] in
  for n = 0 to (texts * 1000) - 1 do
    let place = n * 7919 mod Array.length history in
    history.(place) <- List.init 5 (fun i -> string_of_int (n + i));
    if n mod 7 = 0 then for i = 1 to 2000 do ignore (Sys.opaque_identity (i * n)) done
  done;
  Atomic.set over true;
  let _, rounds = Domain.join other in
  Printf.printf "%d rounds\nprogress: %d texts\n" rounds texts
