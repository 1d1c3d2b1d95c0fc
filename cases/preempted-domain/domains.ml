(* Two domains, each on a CPU of its own, count words in persistent maps. The first domain to fill its minor heap stops
   both. Alone they hardly wait for one another. In the slow twin, a busy program shares the second domain's CPU. Until
   that domain gets its CPU back, no collection can begin, and the first domain waits. *)

external pin : int -> unit = "holdup_case_pin"
module Words = Map.Make (String)

let rounds = int_of_string Sys.argv.(1)

let words =
  let word n = Printf.sprintf "word%d" (n * 7919 mod 4001) in
  Array.init 4001 word

let count counts word =
  Words.update word (function None -> Some 1 | Some n -> Some (n + 1)) counts

(* One thing to do: the words of one text, counted anew. *)
let index_text () = Array.fold_left count Words.empty words |> Words.cardinal

let next = Atomic.make 0

let rec work found =
  if Atomic.fetch_and_add next 1 < rounds then work (found + index_text ()) else found

let () =
  let worker cpu () = pin cpu; work 0 in
  let other = Domain.spawn (worker 1) in
  let own = worker 0 () in
  let found = own + Domain.join other in
  assert (found = rounds * Array.length words);
  Printf.printf "progress: %d texts\n" rounds
