(* Fills matrices with random numbers, with parallel_for over the rows, and multiplies them: in sequence, or with
   parallel_for as well. *)

let row a b result i =
  let n = Array.length b in
  for j = 0 to n - 1 do
    let sum = ref 0 in
    for k = 0 to n - 1 do sum := !sum + (a.(i).(k) * b.(k).(j)) done;
    result.(i).(j) <- !sum
  done

(* Element after element of a long sequence, which any row can start anywhere. *)
let random_row n round i =
  let state = ref ((round * 7919) + i) in
  let next () = for _ = 1 to 100 do state := ((!state * 25214903917) + 11) land 0xffffffffffff done; !state lsr 40 in
  Array.init n (fun _ -> next ())

let () =
  let domains = int_of_string Sys.argv.(2) and n = int_of_string Sys.argv.(3) and rounds = int_of_string Sys.argv.(4) in
  let pool = Pool.setup_pool ~num_domains:(domains - 1) () in
  let in_parallel body = Pool.parallel_for pool ~start:0 ~finish:(n - 1) ~body in
  let multiply body = if Sys.argv.(1) = "sequential" then for i = 0 to n - 1 do body i done else in_parallel body in
  let sum = ref 0 in
  for round = 1 to rounds do
    let a = Array.make n [||] and b = Array.make n [||] and result = Array.make_matrix n n 0 in
    in_parallel (fun i -> a.(i) <- random_row n round i; b.(i) <- random_row n (-round) i);
    multiply (row a b result);
    sum := !sum + result.(n - 1).(n - 1)
  done;
  Pool.teardown_pool pool;
  Printf.printf "%d\nprogress: %d products\n" !sum rounds
