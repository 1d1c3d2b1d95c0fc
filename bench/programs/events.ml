(* events DOMAINS WORDS_A_SECOND SECONDS: each domain tells so many words a second in events of its own (0: as many as it
   can), evenly in each millisecond. Prints how many it told. *)
module R = Runtime_events

type R.User.tag += Told

let told = R.User.register "told" Told R.Type.int
let words_each = 3 (* header, time, value *)

let tell words_a_second seconds =
  let began = Unix.gettimeofday () in
  let rec go count =
    let passed = Unix.gettimeofday () -. began in
    if passed >= seconds then count
    else
      let due = if words_a_second = 0 then count + 1000 else int_of_float (passed *. float words_a_second) / words_each in
      for number = count to due - 1 do R.User.write told (number land 0xffff) done;
      if words_a_second > 0 then Unix.sleepf 0.001;
      go (max count due)
  in
  go 0

let () =
  let number at = int_of_string Sys.argv.(at) in
  let work () = tell (number 2) (float (number 3)) in
  let others = List.init (number 1 - 1) (fun _ -> Domain.spawn work) in
  let own = work () in
  let all = List.fold_left (fun sum other -> sum + Domain.join other) own others in
  Printf.printf "told=%d\n" all
