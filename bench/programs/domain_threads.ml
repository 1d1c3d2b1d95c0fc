(* Domains with threads of their own that take turns in them, beside a first domain that only waits for their ends: what a domain's
   ring tells comes from several threads, those that answer for a domain in a blocking section included. *)

let rec churn until kept =
  if Unix.gettimeofday () < until then begin
    let fresh = List.init 400 (fun n -> string_of_int n) in
    churn until (if List.length kept > 4000 then fresh else List.rev_append fresh kept)
  end

let doze until =
  while Unix.gettimeofday () < until do
    Unix.sleepf 0.003;
    ignore (Sys.opaque_identity (List.init 2000 Fun.id))
  done

let domain until () =
  let others = [ Thread.create (fun () -> churn until []) (); Thread.create doze until ] in
  churn until [];
  List.iter Thread.join others

let () =
  let until = Unix.gettimeofday () +. float_of_string Sys.argv.(1) in
  List.init 2 (fun _ -> Domain.spawn (domain until)) |> List.iter Domain.join;
  Printf.printf "%d\n" (Gc.quick_stat ()).minor_collections
