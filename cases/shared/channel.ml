(* Channels between domains, in the order in which was sent. A bounded one of size 0 is a rendezvous: send returns when
   somebody has received. Any number of domains may send and receive. It cannot be closed. *)

type 'a receiver = { mutable got : 'a option; arrived : Condition.t }
type 'a sender = { value : 'a; mutable taken : bool; left : Condition.t }

type 'a t = {
  size : int;
  lock : Mutex.t;
  buffer : 'a Queue.t;
  senders : 'a sender Queue.t;
  receivers : 'a receiver Queue.t;
}

let make_bounded size =
  if size < 0 then invalid_arg "Channel.make_bounded";
  { size; lock = Mutex.create (); buffer = Queue.create (); senders = Queue.create (); receivers = Queue.create () }

let make_unbounded () = make_bounded max_int

let with_lock channel f =
  Mutex.lock channel.lock;
  Fun.protect ~finally:(fun () -> Mutex.unlock channel.lock) f

(* Under the lock: true if somebody has it, or it has a place. *)
let deliver channel value =
  match Queue.take_opt channel.receivers with
  | Some receiver ->
    receiver.got <- Some value;
    Condition.signal receiver.arrived;
    true
  | None when Queue.length channel.buffer < channel.size -> Queue.add value channel.buffer; true
  | None -> false

(* Under the lock: what was sent first. *)
let collect channel =
  let next = Queue.take_opt channel.buffer in
  match Queue.take_opt channel.senders with
  | None -> next
  | Some sender ->
    sender.taken <- true;
    Condition.signal sender.left;
    if next = None then Some sender.value else (Queue.add sender.value channel.buffer; next)

let send channel value =
  with_lock channel @@ fun () ->
  if not (deliver channel value) then begin
    let self = { value; taken = false; left = Condition.create () } in
    Queue.add self channel.senders;
    while not self.taken do Condition.wait self.left channel.lock done
  end

let rec received channel self =
  match self.got with
  | Some value -> value
  | None -> Condition.wait self.arrived channel.lock; received channel self

let recv channel =
  with_lock channel @@ fun () ->
  match collect channel with
  | Some value -> value
  | None ->
    let self = { got = None; arrived = Condition.create () } in
    Queue.add self channel.receivers;
    received channel self

let send_poll channel value = with_lock channel (fun () -> deliver channel value)
let recv_poll channel = with_lock channel (fun () -> collect channel)
