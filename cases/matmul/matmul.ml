(* Multiplies matrices, in sequence or with parallel_for over the rows of the result. The pool is there both times. *)

let row a b result i =
  let n = Array.length b in
  for j = 0 to n - 1 do
    let sum = ref 0 in
    for k = 0 to n - 1 do sum := !sum + (a.(i).(k) * b.(k).(j)) done;
    result.(i).(j) <- !sum
  done

let () =
  let domains = int_of_string Sys.argv.(2) and n = int_of_string Sys.argv.(3) and rounds = int_of_string Sys.argv.(4) in
  let pool = Pool.setup_pool ~num_domains:(domains - 1) () in
  let a = Array.init n (fun i -> Array.init n (fun j -> (i * j) mod 17)) in
  let multiply body =
    if Sys.argv.(1) = "sequential" then for i = 0 to n - 1 do body i done
    else Pool.parallel_for pool ~start:0 ~finish:(n - 1) ~body
  in
  let power = ref a in
  for _ = 1 to rounds do
    let result = Array.make_matrix n n 0 in
    multiply (row !power a result);
    power := Array.map (Array.map (fun v -> v mod 1000)) result
  done;
  Pool.teardown_pool pool;
  Printf.printf "%d\nprogress: %d products\n" !power.(n - 1).(n - 1) rounds
