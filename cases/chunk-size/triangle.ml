(* Counts the pairs of near points, each pair once. Row i has n - i pairs, so the first rows are the longest. The
   chunk size is the number of rows per task. *)

let () =
  let domains = int_of_string Sys.argv.(1) and chunk_size = int_of_string Sys.argv.(2) in
  let n = 4000 and steps = int_of_string Sys.argv.(3) in
  let pool = Pool.setup_pool ~num_domains:(domains - 1) () in
  let place factor i = float_of_int (i * factor mod 10007) /. 10007. in
  let x = Array.init n (place 7919) and y = Array.init n (place 104729) in
  let near = Array.make n 0 in
  for step = 1 to steps do
    let reach = 0.001 *. float_of_int step in
    let body i =
      let found = ref 0 in
      for j = i + 1 to n - 1 do
        let dx = x.(i) -. x.(j) and dy = y.(i) -. y.(j) in
        if (dx *. dx) +. (dy *. dy) < reach *. reach then incr found
      done;
      near.(i) <- !found
    in
    Pool.parallel_for pool ~chunk_size ~start:0 ~finish:(n - 1) ~body
  done;
  Pool.teardown_pool pool;
  Printf.printf "%d pairs\nprogress: %d steps\n" (Array.fold_left ( + ) 0 near) steps
