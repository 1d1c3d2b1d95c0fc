(* lateness FAULT SECONDS: two domains allocate; now and then one of them cannot see a request to stop, for a reason that
   is known. Prints when, and which threads. `bench/lateness` says what it is for.
   FAULT: hog idle sleep call loop fault. Where it is hog or idle, another program must run on the last CPU:
   lateness beside SECONDS does, and prints when it ran. *)

external now : unit -> (int[@untagged]) = "late_unused" "late_now" [@@noalloc]
external ran : unit -> (int[@untagged]) = "late_unused" "late_ran" [@@noalloc]
external tid : unit -> (int[@untagged]) = "late_unused" "late_tid" [@@noalloc]
external pin : (int[@untagged]) -> (int[@untagged]) = "late_unused" "late_pin" [@@noalloc]
external give_way : unit -> (int[@untagged]) = "late_unused" "late_give_way" [@@noalloc]

(* None of these lets the runtime's lock go. *)
external sleep : (int[@untagged]) -> (int[@untagged]) = "late_unused" "late_sleep" [@@noalloc]
external compute : (int[@untagged]) -> (int[@untagged]) = "late_unused" "late_compute" [@@noalloc]
external touch : (int[@untagged]) -> (int[@untagged]) = "late_unused" "late_touch" [@@noalloc]
external give_back : unit -> (int[@untagged]) = "late_unused" "late_give_back" [@@noalloc]

(* A long stretch of OCaml without a poll: no loop, no recursion, nothing allocated. *)
let[@inline never] step x = (x * 1103515245) + 12345
let[@inline never] steps1 x = step (step (step (step (step (step (step (step x)))))))
let[@inline never] steps2 x = steps1 (steps1 (steps1 (steps1 (steps1 (steps1 (steps1 (steps1 x)))))))
let[@inline never] steps3 x = steps2 (steps2 (steps2 (steps2 (steps2 (steps2 (steps2 (steps2 x)))))))
let[@inline never] steps4 x = steps3 (steps3 (steps3 (steps3 (steps3 (steps3 (steps3 (steps3 x)))))))
let[@inline never] steps5 x = steps4 (steps4 (steps4 (steps4 (steps4 (steps4 (steps4 (steps4 x)))))))
let[@inline never] steps6 x = steps5 (steps5 (steps5 (steps5 (steps5 (steps5 (steps5 (steps5 x)))))))
let[@inline never] steps7 x = steps6 (steps6 (steps6 (steps6 (steps6 (steps6 (steps6 (steps6 x)))))))
let[@inline never] steps8 x = steps7 (steps7 (steps7 (steps7 (steps7 (steps7 (steps7 (steps7 x)))))))

let ms = 1_000_000
let length_ms = 20

(* Stretches of time, and how long the thread ran in them, noted without allocating. *)
let stretches = Array.make 99_999 0
let noted = ref 0

let note from until ran =
  if !noted + 3 <= Array.length stretches then begin
    stretches.(!noted) <- from;
    stretches.(!noted + 1) <- until;
    stretches.(!noted + 2) <- ran;
    noted := !noted + 3
  end

let allocate_until stop =
  while now () < stop do
    for _ = 1 to 1000 do ignore (Sys.opaque_identity (ref ())) done
  done

let inject fault =
  let from = now () in
  let before = ran () in
  (match fault with
   | "sleep" -> ignore (sleep length_ms)
   | "call" -> ignore (Sys.opaque_identity (compute length_ms))
   | "loop" -> ignore (Sys.opaque_identity (steps8 1))
   | "fault" -> ignore (touch length_ms)
   | _ -> ());
  note from (now ()) (ran () - before);
  if fault = "fault" then ignore (give_back ())

let late_domain (fault, stop) =
  while now () < stop do
    allocate_until (min stop (now () + (10 * ms)));
    if now () < stop then inject fault
  done

(* Who runs on the last CPU: a gap in its own time is somebody else's. *)
let beside stop =
  let gap = 50_000 in
  ignore (pin (-1));
  let from = ref (now ()) in
  let last = ref !from in
  while !last < stop do
    let at = now () in
    if at - !last > gap then begin
      note !from !last (!last - !from);
      from := at
    end;
    last := at
  done;
  note !from !last (!last - !from)

let print tids =
  let tid (name, number) = Printf.sprintf "%S: %d" name number in
  Printf.printf "{\"tids\": {%s}, \"stretches\": [" (String.concat ", " (List.map tid tids));
  for i = 0 to (!noted / 3) - 1 do
    let number place = stretches.((3 * i) + place) in
    Printf.printf "%s[%d, %d, %d]" (if i = 0 then "" else ", ") (number 0) (number 1) (number 2)
  done;
  print_endline "]}"

let () =
  let fault = Sys.argv.(1) in
  let stop = now () + int_of_float (float_of_string Sys.argv.(2) *. 1e9) in
  let main = tid () in
  match fault with
  | "beside" ->
    beside stop;
    print [ ("beside", main) ]
  | _ ->
    (* The thread that answers for this domain is started by it, and has its CPU and its weight. *)
    if fault = "idle" then begin
      ignore (pin (-1));
      ignore (give_way ())
    end;
    let worker cpu work = Domain.spawn (fun () -> ignore (pin cpu); let mine = tid () in work (); mine) in
    let prompt = worker 0 (fun () -> allocate_until stop) in
    let late =
      match fault with
      | "idle" -> None
      | "hog" -> Some (worker (-1) (fun () -> allocate_until stop))
      | _ -> Some (worker (-1) (fun () -> late_domain (fault, stop)))
    in
    let prompt = Domain.join prompt in
    let late = match late with Some late -> [ ("late", Domain.join late) ] | None -> [] in
    print ([ ("main", main); ("prompt", prompt) ] @ late)
