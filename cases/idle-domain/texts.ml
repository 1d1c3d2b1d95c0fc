(* Domains count words in persistent maps. With "waiting", the main domain only waits for the others. Each minor
   collection must stop it nevertheless, and wakes its second thread, which responds for it. With "working", it is one
   of the workers. *)

module Words = Map.Make (String)

let words = Array.init 4001 (fun n -> Printf.sprintf "word%d" (n * 7919 mod 4001))

let count counts word = Words.update word (function None -> Some 1 | Some n -> Some (n + 1)) counts
let index_text () = Array.fold_left count Words.empty words |> Words.cardinal

let () =
  let texts = int_of_string Sys.argv.(2) and next = Atomic.make 0 in
  let rec work found = if Atomic.fetch_and_add next 1 < texts then work (found + index_text ()) else found in
  let main_waits = Sys.argv.(1) = "waiting" in
  let others = List.init (if main_waits then 2 else 1) (fun _ -> Domain.spawn (fun () -> work 0)) in
  let own = if main_waits then 0 else work 0 in
  let found = List.fold_left (fun sum other -> sum + Domain.join other) own others in
  assert (found = texts * Array.length words);
  Printf.printf "progress: %d texts\n" texts
