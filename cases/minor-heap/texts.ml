(* Domains count the words of texts in persistent maps: much is allocated, little of it lives. How often all of them stop
   for a minor collection follows from the size of the minor heap, which OCAMLRUNPARAM gives. *)

module Words = Map.Make (Int)

let words = Array.init 500 (fun n -> n * 7919 mod 4001)

let count counts word = Words.update word (function None -> Some 1 | Some n -> Some (n + 1)) counts
let index_text () = Array.fold_left count Words.empty words |> Words.cardinal

let () =
  let domains = int_of_string Sys.argv.(1) and texts = 10 * int_of_string Sys.argv.(2) in
  let work () =
    let found = ref 0 in
    for _ = 1 to texts / domains do found := !found + index_text () done;
    !found
  in
  let others = List.init (domains - 1) (fun _ -> Domain.spawn work) in
  let own = work () in
  let found = List.fold_left (fun sum other -> sum + Domain.join other) own others in
  assert (found = texts / domains * domains * Array.length words);
  Printf.printf "progress: %d texts\n" texts
