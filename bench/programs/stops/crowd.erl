%% Storms of processes that are born, say a word and die, and pairs that talk, on more schedulers than there are CPUs; the
%% runtime's own account of its schedulers is printed. It begins
%% when a line, or the end, of its input comes.
-module(crowd).
-export([main/0]).

storm(0, _) -> ok;
storm(N, Width) ->
    Self = self(),
    [spawn(fun() -> Self ! done end) || _ <- lists:seq(1, Width)],
    [receive done -> ok end || _ <- lists:seq(1, Width)],
    storm(N - 1, Width).

echo() -> receive {From, N} -> From ! {self(), N}, echo() end.

talk(0, _) -> ok;
talk(N, To) ->
    To ! {self(), N},
    receive {To, N} -> ok end,
    talk(N - 1, To).

main() ->
    io:format("ready~n"),
    io:get_line(""),
    erlang:system_flag(microstate_accounting, true),
    Self = self(),
    [spawn(fun() -> storm(6000, 50), Self ! over end) || _ <- lists:seq(1, 8)],
    [spawn(fun() -> talk(75000, spawn(fun echo/0)), Self ! over end) || _ <- lists:seq(1, 8)],
    [receive over -> ok end || _ <- lists:seq(1, 16)],
    Account = [T || T = #{type := scheduler} <- erlang:statistics(microstate_accounting)],
    Sum = fun(State) -> lists:sum([maps:get(State, C) || #{counters := C} <- Account]) end,
    Unit = erlang:convert_time_unit(1, second, perf_counter),
    [io:format("~p ~p~n", [State, Sum(State) * 1000000000 div Unit])
     || State <- [emulator, gc, aux, check_io, port, other, sleep]],
    halt().
