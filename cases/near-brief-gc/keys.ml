(* Each domain computes keys, each of them for some microseconds, and makes a text of each, which soon is garbage. Both
   domains allocate, so they are stopped for collections; but seldom, and little survives. *)

let key seed =
  let state = ref seed in
  for _ = 1 to 10_000 do state := ((!state * 25214903917) + 11) land 0xffffffffffff done;
  !state

let count keys number () =
  let long = ref 0 in
  for i = 1 to keys do
    let text = string_of_int (key ((i * 31) + number)) in
    if String.length text > 12 then incr long
  done;
  !long

let () =
  let domains = int_of_string Sys.argv.(1) and keys = int_of_string Sys.argv.(2) in
  let others = List.init (domains - 1) (fun number -> Domain.spawn (count keys (number + 1))) in
  let own = count keys 0 () in
  let long = List.fold_left (fun sum other -> sum + Domain.join other) own others in
  Printf.printf "%d long keys\nprogress: %d keys\n" long (keys * domains)
