#!/usr/bin/env python3
"""The results of a run as tables, with a description of the machine."""
import json, os, platform, subprocess, sys

GOALS = {"one hop, 1 client": 10, "one hop, 16 clients": 20, "three hops, 1 client": 100, "three hops, 16 clients": 100,
         "five hops, 1 client": 500, "five hops, 16 clients": 500, "batch of 100, an item": 100}
rows = [json.loads(line) for line in open(sys.argv[1])]
sides = {row["product"]: row for row in rows if row["product"] != "growth"}
model = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), "?")
commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip()
print(f"# authz under load\n\n{os.cpu_count()} × {model}, Linux {platform.release()}; commit {commit}; server `{sys.argv[2]}`; "
      f"load average at the end {os.getloadavg()[0]:.1f}.\n")
cost = lambda value: value["server_us"] + value["database_us"]
if {"platform", "openfga"} <= sides.keys():
    ours, theirs = sides["platform"], sides["openfga"]
    print(f"CPU per check, server + database, {ours['n']:,} tuples: ours is the whole `can` over HTTP with bearer and all steps.\n")
    print("| checks | ours, µs (server + database) | OpenFGA 1.22.1, µs (server + database) | ratio | goal |\n|---|---|---|---|---|")
    for kind, goal in GOALS.items():
        a, b = ours[kind], theirs[kind]
        print(f"| {kind} | {cost(a):,.0f} ({a['server_us']:,.0f} + {a['database_us']:,.0f}) | {cost(b):,.0f} "
              f"({b['server_us']:,.0f} + {b['database_us']:,.0f}) | {cost(b) / cost(a):,.1f} | {goal} |")
    pairs = list(zip(*(side["batch of 100, an item"]["answers"] for side in (ours, theirs)), strict=True))
    unlike = [pair for pair in pairs if pair[0] != pair[1]]
    print(f"\nEvery single response was the expected one on both sides; of the batch's {len(pairs)} items {len(unlike)} were answered differently"
          f" ({', '.join(f'{a} by ours and {b} by OpenFGA' for a, b in sorted(set(unlike))) or 'yes ' + str(pairs.count(('1', '1')))}).\n")
growth = [row for row in rows if row["product"] == "growth"]
if growth:
    base = growth[0]["rss"] - 60 * growth[0]["n"]
    print("| tuples | resident, MiB | bytes per tuple | load, s | one hop, µs | three hops, µs | five hops, µs |\n|---|---|---|---|---|---|---|")
    for row in growth:
        each = f"{(row['rss'] - base) / row['n']:.1f}" if row["n"] > growth[0]["n"] else "–"
        costs = " | ".join(f"{cost(row[kind + ', 1 client']):,.0f}" for kind in ("one hop", "three hops", "five hops"))
        print(f"| {row['n']:,} | {row['rss'] / 2**20:,.0f} | {each} | {row['platform_authz_load_seconds']:.2f} | {costs} |")
    print("\nBytes per tuple: resident memory of the whole process after the load and the checks, less that of the smallest size.")
