(* Sorts package versions as Debian orders them, in domains. Only one function differs: how the end of a run of digits, or
   of leading zeros, is found. With "closure", its loop is a local function that captures variables, so a closure is
   allocated for each component of each version. With "plain", the loop gets these variables as arguments. *)

let is_digit c = c >= '0' && c <= '9'
let is_zero c = c = '0'
let is_other c = not (is_digit c)

let skip_with_closure f text from until =
  let rec loop i = if i = until then i else if f text.[i] then loop (i + 1) else i in
  loop from

let rec skip_plain f text from until =
  if from = until then from else if f text.[from] then skip_plain f text (from + 1) until else from

(* Numbers of any length: the longer one is larger. *)
let rec compare_chars a i b j length =
  if length = 0 then 0
  else match Char.compare a.[i] b.[j] with 0 -> compare_chars a (i + 1) b (j + 1) (length - 1) | order -> order

let rec compare_from skip digits a i b j =
  let a_end = String.length a and b_end = String.length b in
  if i = a_end || j = b_end then Int.compare (a_end - i) (b_end - j)
  else
    let i = if digits then skip is_zero a i a_end else i and j = if digits then skip is_zero b j b_end else j in
    let kind = if digits then is_digit else is_other in
    let i_next = skip kind a i a_end and j_next = skip kind b j b_end in
    let order =
      match Int.compare (i_next - i) (j_next - j) with
      | 0 -> compare_chars a i b j (i_next - i)
      | order -> order
    in
    if order <> 0 then order else compare_from skip (not digits) a i_next b j_next

(* In place and without allocating: what is allocated here, comparing allocates. *)
let sort compare versions =
  for i = 1 to Array.length versions - 1 do
    let version = versions.(i) and place = ref i in
    while !place > 0 && compare versions.(!place - 1) version > 0 do
      versions.(!place) <- versions.(!place - 1);
      decr place
    done;
    versions.(!place) <- version
  done

let () =
  let domains = int_of_string Sys.argv.(2) and rounds = int_of_string Sys.argv.(3) in
  let skip = if Sys.argv.(1) = "closure" then skip_with_closure else skip_plain in
  let known = Array.init 300 (fun n -> Printf.sprintf "1.0%d.%d~rc%d-%d" (n mod 7) (n * 7919 mod 97) (n mod 3) n) in
  let work () =
    let versions = Array.copy known in
    for _ = 1 to rounds / domains do
      Array.blit known 0 versions 0 (Array.length known);
      sort (fun a b -> compare_from skip true a 0 b 0) versions
    done
  in
  let others = List.init (domains - 1) (fun _ -> Domain.spawn work) in
  work ();
  List.iter Domain.join others;
  Printf.printf "progress: %d sorted lists\n" rounds
