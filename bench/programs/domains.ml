(* Domains that sort lists, share a table behind a mutex, and wait for each other. *)

let table : (int, int) Hashtbl.t = Hashtbl.create 1024
let lock = Mutex.create ()

let rec noise seed count list =
  if count = 0 then list
  else
    let next = ((seed * 1103515245) + 12345) land 0x3fffffff in
    noise next (count - 1) (next :: list)

let add list =
  Mutex.lock lock;
  Hashtbl.replace table (List.hd list) (List.length list);
  Mutex.unlock lock

let work seed () =
  for round = 1 to 60 do
    add (List.sort compare (noise (seed + round) 20_000 []))
  done

let () =
  let domains = List.init 3 (fun seed -> Domain.spawn (work seed)) in
  List.iter Domain.join domains;
  exit (if Hashtbl.length table > 0 then 0 else 1)
