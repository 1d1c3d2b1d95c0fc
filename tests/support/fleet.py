"""Runs queries of `holdup query --dataset` in DuckDB, pandas, Spark and ClickHouse's engine (chdb), on the same files.

Arguments: a dataset, and the answers as JSON: [[name, question, rows], ...]. Prints a line per engine with the number of equal
answers, or `skipped: reason`. The answers that differ follow. Rows are compared as sets, because the position of NULLs in a
sort depends on the engine.
"""

import json
import math
import os
import re
import sys
import tempfile
from pathlib import Path

TABLES = ["recording", "processes", "threads", "ledger", "cpus", "slices", "waits", "wakeups", "locks", "lock_holders", "blame",
          "critical_path", "samples", "stacks", "syscalls", "spans", "counters", "marks", "findings", "evidence", "loss", "labels"]
PERCENTILE = re.compile(r"percentile\((\w+), (\d+)\)")


def alike(a, b):
    if isinstance(a, (bool, str)) or isinstance(b, (bool, str)) or a is None or b is None:
        return a == b
    return math.isclose(float(a), float(b), rel_tol=1e-9, abs_tol=1e-9)


def key(row):
    return [(value is None, f"{float(value):.6e}" if not isinstance(value, (str, bool)) and value is not None else str(value))
            for value in row]


def same(ours, theirs):
    ours, theirs = sorted(ours, key=key), sorted(theirs, key=key)
    return len(ours) == len(theirs) and all(
        len(a) == len(b) and all(alike(x, y) for x, y in zip(a, b)) for a, b in zip(ours, theirs))


def files(root, table):
    return f"{root}/host=*/date=*/run=*/{table}.parquet"


def duckdb(root):
    import duckdb

    engine = duckdb.connect()
    engine.execute("CREATE MACRO overlap_ns(a, b, c, d) AS greatest(0, least(b, d) - greatest(a, c))")
    engine.execute("CREATE MACRO percentile(x, p) AS list_sort(list(x))[greatest(1, ceil(count(x) * p / 100.0))::BIGINT]")
    for table in TABLES:
        engine.execute(f"CREATE VIEW {table} AS FROM read_parquet('{files(root, table)}', hive_partitioning = true, "
                       "hive_types_autocast = false, union_by_name = true)")
    return lambda question: engine.execute(question).fetchall()


def spark(root):
    import pyspark
    from pyspark.sql import SparkSession

    os.environ.setdefault("SPARK_HOME", str(Path(pyspark.__file__).parent))
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    os.chdir(tempfile.mkdtemp())
    session = (SparkSession.builder.master("local-cluster[2,1,1024]").appName("holdup")
               .config("spark.sql.sources.partitionColumnTypeInference.enabled", "false")
               .config("spark.sql.shuffle.partitions", "4").config("spark.ui.enabled", "false")
               .config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1")
               .config("spark.log.level", "OFF").getOrCreate())
    session.sql("CREATE TEMPORARY FUNCTION overlap_ns(a BIGINT, b BIGINT, c BIGINT, d BIGINT) RETURNS BIGINT "
                "RETURN greatest(0, least(b, d) - greatest(a, c))")
    for table in TABLES:
        session.read.option("basePath", str(root)).parquet(files(root, table)).createOrReplaceTempView(table)

    def ask(question):
        question = PERCENTILE.sub(lambda of: f"percentile_disc({int(of[2]) / 100}) WITHIN GROUP (ORDER BY {of[1]})", question)
        return [tuple(row) for row in session.sql(question).collect()]

    return ask


def clickhouse(root):
    from chdb import session as sessions

    session = sessions.Session()
    for setting in ["use_hive_partitioning = 1", "join_use_nulls = 1", "aggregate_functions_null_for_empty = 1",
                    "output_format_json_quote_64bit_integers = 0", "prefer_column_name_to_alias = 0"]:
        session.query(f"SET {setting}")
    session.query("CREATE FUNCTION overlap_ns AS (a, b, c, d) -> greatest(0, least(b, d) - greatest(a, c))")
    session.query("CREATE DATABASE fleet")
    for table in TABLES:
        session.query(f"CREATE VIEW fleet.{table} AS SELECT * FROM file('{files(root, table)}', Parquet)")
    session.query("USE fleet")

    def ask(question):
        question = PERCENTILE.sub(
            lambda of: f"arraySort(groupArray({of[1]}))[greatest(1, toUInt64(ceil(count({of[1]}) * {of[2]} / 100)))]", question)
        return [tuple(row) for row in json.loads(session.query(question, "JSONCompact").bytes())["data"]]

    return ask


def pandas(root):
    import pandas

    def read(table, columns):
        parts = []
        for file in sorted(Path(root).glob(f"host=*/date=*/run=*/{table}.parquet")):
            part = pandas.read_parquet(file, columns=columns, partitioning=None)
            for level in file.relative_to(root).parts[:-1]:
                name, value = level.split("=", 1)
                part[name] = value
            parts.append(part)
        return pandas.concat(parts)

    def locks():
        frame = read("locks", ["name", "wait_ns"])
        frame = frame[frame["date"] >= "2026-11-16"].groupby("name").agg(
            runs=("run", "nunique"), hosts=("host", "nunique"), total_ns=("wait_ns", "sum")).reset_index()
        return [tuple(row) for row in frame.sort_values("total_ns", ascending=False).itertuples(index=False)]

    def classes():
        frame = read("ledger", ["class", "time_ns"]).groupby("class")["time_ns"].sum()
        total = frame.sum()
        return [(name, time, round(100.0 * time / total, 1)) for name, time in frame.items()]

    known = {"fleet 1": locks, "question 1": classes}
    return lambda question, name: known[name]() if name in known else None


def main():
    root, answers = Path(sys.argv[1]), json.loads(Path(sys.argv[2]).read_text())
    failed = False
    for name, engine in [("DuckDB", duckdb), ("pandas", pandas), ("Spark", spark), ("ClickHouse", clickhouse)]:
        try:
            ask = engine(root)
        except ImportError as error:
            print(f"skipped: {name}: {error}")
            continue
        except Exception as error:  # an engine that is there and does not start is no defect of the dataset's
            print(f"skipped: {name} does not start: {str(error).splitlines()[0][:200]}")
            continue
        equal = asked = 0
        for which, question, rows in answers:
            try:
                theirs = ask(question, which) if name == "pandas" else ask(question)
            except Exception as error:
                theirs = f"{type(error).__name__}: {str(error)[:400]}"
            if theirs is None:
                continue
            asked += 1
            if not isinstance(theirs, str) and same(rows, theirs):
                equal += 1
            else:
                failed = True
                print(f"differs: {name}: {which}: {question}\n  holdup {rows}\n  {name} {theirs}")
        print(f"{name}: {equal} of {asked} equal")
    sys.stdout.flush()
    # Engines that run in this process are not waited for.
    os._exit(1 if failed else 0)


main()
