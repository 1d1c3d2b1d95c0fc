(* Solves the same dependency problem again and again with the SAT solver of 0install, in several parallel workers. They are
   "domains" of one process, or "processes" of one domain each. They share only the packages, which never change. *)

let packages = 120
let versions = 12

module Input = struct
  module Role = struct
    type t = int
    let pp f role = Format.fprintf f "package %d" role
    let compare = Int.compare
  end

  type importance = [ `Essential | `Recommended | `Restricts ]
  type dependency = { on : int; oldest : int; newest : int; importance : importance }
  type impl = { package : int; version : int; dependencies : dependency list }

  (* What 0install has besides packages and their versions, and this has none of. *)
  type command = |
  type command_name = string
  type machine_group = string
  type conflict_class = string
  type rejection = unit
  type restriction = int * int
  type requirements = { role : Role.t; command : command_name option }

  type dep_info = {
    dep_role : Role.t;
    dep_importance : importance;
    dep_required_commands : command_name list;
  }

  type role_information = { replacement : Role.t option; impls : impl list }

  let all : impl list array ref = ref [||]
  let implementations role = { replacement = None; impls = !all.(role) }
  let requires _ impl = (impl.dependencies, [])
  let dep_info { on; importance; _ } = { dep_role = on; dep_importance = importance; dep_required_commands = [] }
  let restrictions { oldest; newest; _ } = [ (oldest, newest) ]
  let meets_restriction impl (oldest, newest) = impl.version >= oldest && impl.version <= newest
  let compare_version a b = Int.compare a.version b.version
  let dummy_impl = { package = -1; version = -1; dependencies = [] }
  let command_requires _ : command -> _ = function _ -> .
  let get_command _ _ = None
  let machine_group _ = None
  let conflict_class _ = []
  let rejects _ = ([], [])
  let user_restrictions _ = None
  let describe_problem _ () = ""
  let format_machine _ = ""
  let string_of_restriction (oldest, newest) = Printf.sprintf "%d to %d" oldest newest
  let pp_version f impl = Format.pp_print_int f impl.version
  let pp_impl f impl = Format.fprintf f "%d.%d" impl.package impl.version
  let pp_impl_long = pp_impl
  let pp_command _ : command -> _ = function _ -> .
end

module Solver = Zeroinstall_solver.Make (Input)

(* A package needs some of those behind it, in a range of versions each. *)
let make_up () =
  let random = Random.State.make [| 42 |] in
  let below n = Random.State.int random n in
  let dependency package =
    let oldest = below ((versions / 2) + 1) in
    { Input.on = package + 1 + below (min 12 (packages - package - 1));
      oldest;
      newest = max (oldest + 1) (versions - below ((versions / 2) + 1));
      importance = (if below 5 = 0 then `Recommended else `Essential) }
  in
  let impl package nth =
    let needs = if package < packages - 3 then 2 + below 4 else 0 in
    { Input.package; version = versions - nth; dependencies = List.init needs (fun _ -> dependency package) }
  in
  Input.all := Array.init packages (fun package -> List.init versions (impl package))

let work solves =
  let one _ = Option.is_some (Solver.do_solve ~closest_match:false { role = 0; command = None }) in
  List.for_all Fun.id (List.init solves one)

let in_process solves =
  match Unix.fork () with 0 -> exit (if work solves then 0 else 1) | child -> child

let () =
  let workers = int_of_string Sys.argv.(2) and solves = int_of_string Sys.argv.(3) in
  make_up ();
  let solved =
    if Sys.argv.(1) = "domains" then
      List.init workers (fun _ -> Domain.spawn (fun () -> work solves)) |> List.map Domain.join |> List.for_all Fun.id
    else
      List.init workers (fun _ -> in_process solves)
      |> List.for_all (fun child -> snd (Unix.waitpid [] child) = Unix.WEXITED 0)
  in
  if not solved then exit 1;
  Printf.printf "progress: %d solutions\n" (workers * solves)
