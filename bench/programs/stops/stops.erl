%% Two busy processes and idle schedulers; the runtime's own account of its schedulers is printed. It begins
%% when a line, or the end, of its input comes.
-module(stops).
-export([main/0]).

work(0, Sum) -> Sum;
work(N, Sum) -> work(N - 1, lists:foldl(fun(X, S) -> (X + S) rem 1000003 end, Sum, lists:seq(1, 1000))).

main() ->
    io:format("ready~n"),
    io:get_line(""),
    erlang:system_flag(microstate_accounting, true),
    Self = self(),
    [spawn(fun() -> Self ! work(240000, Seed) end) || Seed <- [1, 2]],
    [receive _ -> ok end || _ <- [1, 2]],
    Account = [T || T = #{type := scheduler} <- erlang:statistics(microstate_accounting)],
    Sum = fun(State) -> lists:sum([maps:get(State, C) || #{counters := C} <- Account]) end,
    Unit = erlang:convert_time_unit(1, second, perf_counter),
    [io:format("~p ~p~n", [State, Sum(State) * 1000000000 div Unit])
     || State <- [emulator, gc, aux, check_io, port, other, sleep]],
    halt().
