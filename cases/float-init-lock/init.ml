(* Fills an array of floats with random numbers, in the domains of a pool. Three forms:

   `shared`: All use one generator, under a lock.
   `beside`: Each has its own, but one domain made them all, one after the other. They share cache lines.
   `own`: Each makes its own where it uses it. *)

let fill state array first last = for i = first to last do array.(i) <- Random.State.float state 100. done

let fill_shared lock state array first last =
  for i = first to last do
    Mutex.lock lock;
    let value = Random.State.float state 100. in
    Mutex.unlock lock;
    array.(i) <- value
  done

let () =
  let form = Sys.argv.(1) and domains = int_of_string Sys.argv.(2) in
  let n = int_of_string Sys.argv.(3) and rounds = int_of_string Sys.argv.(4) in
  let pool = Pool.setup_pool ~num_domains:(domains - 1) () in
  let array = Array.create_float n in
  let lock = Mutex.create () and state = Random.State.make [| 42 |] in
  let states = Array.init domains (fun i -> Random.State.make [| i |]) in
  let part i =
    let first = i * n / domains and last = ((i + 1) * n / domains) - 1 in
    for _ = 1 to rounds do
      match form with
      | "shared" -> fill_shared lock state array first last
      | "beside" -> fill states.(i) array first last
      | _ -> fill (Random.State.make [| i |]) array first last
    done
  in
  Pool.parallel_for pool ~chunk_size:1 ~start:0 ~finish:(domains - 1) ~body:part;
  Pool.teardown_pool pool;
  Printf.printf "mean %.3f\nprogress: %d numbers\n" (Array.fold_left ( +. ) 0. array /. float_of_int n) (n * rounds)
