"""Runs queries of `holdup query` in DuckDB and pandas, on tables that holdup exported. Prints differences only.

Arguments: docs/sql.md, a directory with a Parquet file a view, and the answers as JSON: [[question, rows], ...].
"""

import json
import math
import sys
from pathlib import Path

import duckdb
import pandas


def alike(a, b):
    if isinstance(a, bool) or isinstance(b, bool) or a is None or b is None or isinstance(a, str) or isinstance(b, str):
        return a == b
    return math.isclose(float(a), float(b), rel_tol=1e-9, abs_tol=1e-9)


def same(ours, theirs):
    return len(ours) == len(theirs) and all(
        len(a) == len(b) and all(alike(x, y) for x, y in zip(a, b)) for a, b in zip(ours, theirs))


def main():
    page, directory, answers = Path(sys.argv[1]).read_text(), Path(sys.argv[2]), json.loads(Path(sys.argv[3]).read_text())
    engine = duckdb.connect()
    engine.execute(page.split("```sql\n")[1].split("```")[0])
    tables = {file.stem: file for file in directory.glob("*.parquet")}
    for name, file in tables.items():
        engine.execute(f"CREATE VIEW {name} AS FROM '{file}'")
    for question, rows in answers:
        theirs = engine.execute(question).fetchall()
        if not same(rows, theirs):
            print(f"DuckDB: {question}\n  holdup {rows}\n  DuckDB {theirs}")
    # Pandas: the same sums without SQL.
    frames = {name: pandas.read_parquet(file) for name, file in tables.items()}
    for name, frame in frames.items():
        count = engine.execute(f"SELECT count(*) FROM {name}").fetchone()[0]
        if len(frame) != count:
            print(f"pandas: {name} has {len(frame)} rows, not {count}")
    ledger = frames["ledger"].groupby("class")["time_ns"].sum().to_dict()
    if ledger != {row[0]: row[1] for row in answers[0][1]}:
        print(f"pandas: {ledger}")
    waits = frames["waits"].groupby("kind")["duration_ns"]
    p99 = waits.quantile(0.99, interpolation="higher").to_dict()
    if any(not alike(p99[row[0]], row[4]) for row in answers[5][1]):
        print(f"pandas: {p99}")


main()
