#!/usr/bin/env python3
"""Compares what the simulator counts with what Nsight Compute counts, kernel by kernel.

    python3 docs/performance/ncu_counters.py --autotune target/release/autotune --save ncu.json > ncu_counters.md

Needs a machine with a GPU, `ncu` and an `autotune` binary; nothing but Python's own library besides. Every case runs
`autotune run --device sim --counters --json`, then the same kernel, schedule and size under `ncu`. The result is a markdown report;
the exit code is 1 if a count that must be equal differs or could not be read. `--replay ncu.json` writes the report again from the
saved output of both, without a GPU.
"""

import argparse
import concurrent.futures
import csv
import glob
import io
import json
import os
import re
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass


@dataclass(frozen=True)
class Case:
    """A kernel at a schedule and a size. `floats`: additions and multiplications of f32 are all that the kernel computes with floats,
    and the size is a multiple of its tile, so that the compiler's choices leave the number of operations alone."""

    name: str
    knobs: str
    size: str
    floats: bool = False

    @property
    def title(self):
        return f"{self.name} {self.knobs} {self.size}"


CASES = [
    Case("vector_add", "T=1024,C=1,V=1", "N=98304", floats=True),
    Case("vector_add", "T=1024,C=4,V=4", "N=98304", floats=True),
    Case("vector_add", "T=1024,C=4,V=4", "N=100003"),
    Case("matrix_transpose", "R=32,C=32,CR=1,CC=1,V=1,X=1", "rows=320,cols=288"),
    Case("matrix_transpose", "R=32,C=32,CR=1,CC=1,V=1,X=1", "rows=317,cols=291"),
    Case("matrix_transpose", "R=32,C=32,CR=1,CC=4,V=4,X=1", "rows=320,cols=288"),
    Case("matrix_transpose", "R=64,C=128,CR=4,CC=4,V=4,X=1024", "rows=256,cols=384"),
    Case("matrix_transpose", "R=64,C=128,CR=4,CC=4,V=4,X=1024", "rows=260,cols=396"),
    Case("matrix_addition", "T=1024,C=4,V=4", "N=256", floats=True),
    Case("matrix_copy", "T=2048,C=8,V=4", "N=301"),
    Case("color_inversion", "T=1024,C=1,V=1", "width=317,height=299"),
    Case("color_inversion", "T=1024,C=4,V=4", "width=320,height=300"),
    Case("reverse_array", "T=1024,C=4,V=4", "N=100000"),
    Case("reverse_array", "T=1024,C=1,V=1", "N=100001"),
    Case("rgb_to_grayscale", "T=1024,C=1,V=1", "width=320,height=320", floats=True),
    Case("rgb_to_grayscale", "T=1024,C=4,V=4", "width=320,height=320", floats=True),
    Case("rgb_to_grayscale", "T=1024,C=4,V=4", "width=311,height=301"),
    Case("relu", "T=1024,C=4,V=4,G=8", "N=2500000"),
    Case("leaky_relu", "T=512,C=2,V=2", "N=100002"),
    Case("swiglu", "T=1024,C=4,V=4", "N=200000"),
    Case("swiglu", "T=1024,C=1,V=1", "N=200002"),
    Case("silu", "T=256,C=1,V=1", "N=100000"),
    Case("value_clipping", "T=512,C=2,V=2", "N=100000"),
    Case("rainbow_table", "T=1024,C=4,V=4", "N=100000,R=5"),
]


@dataclass(frozen=True)
class Quantity:
    """Something that both count. `metrics`: ncu's counters of it. Where there are several, all are shown, and one of those that could be
    read has to be equal. `required`: "always", "floats" (only in cases marked so) or "never"."""

    name: str
    simulated: object
    metrics: tuple
    required: str = "always"


def traffic(space, kind, field):
    return lambda launch: launch[space][kind][field]


def threads(*classes):
    return lambda launch: sum(launch["instructions"][c]["thread"] for c in classes)


def warps(*classes):
    return lambda launch: sum(launch["instructions"][c]["warp"] for c in classes)


def operations(launch):
    """Additions and multiplications of f32, of which a fused one is both."""
    return threads("float_add", "float_mul")(launch) + 2 * threads("fma")(launch)


def all_instructions(launch):
    return sum(v["warp"] for k, v in launch["instructions"].items() if k != "move")


THREAD = "smsp__sass_thread_inst_executed_op_{}_pred_on.sum"
ADD, MUL, FMA = (THREAD.format(op) for op in ("fadd", "fmul", "ffma"))


def quantities():
    both = [("load", "ld"), ("store", "st")]
    found = []
    for kind, op in both:
        for field in ("requests", "sectors"):
            metric = f"l1tex__t_{field}_pipe_lsu_mem_global_op_{op}.sum"
            found.append(Quantity(f"global {kind} {field}", traffic("global", kind, field), (metric,)))
    for kind, op in both:
        requests = (f"smsp__inst_executed_op_shared_{op}.sum", f"smsp__sass_inst_executed_op_shared_{op}.sum")
        found.append(Quantity(f"shared {kind} requests", traffic("shared", kind, "requests"), requests))
        wavefronts = tuple(f"{p}data_pipe_lsu_wavefronts_mem_shared_op_{op}.sum" for p in ("l1tex__", "smsp__sass_l1tex_"))
        found.append(Quantity(f"shared {kind} wavefronts", traffic("shared", kind, "wavefronts"), wavefronts))
        conflicts = tuple(f"{p}data_bank_conflicts_pipe_lsu_mem_shared_op_{op}.sum" for p in ("l1tex__", "smsp__sass_l1tex_"))
        found.append(Quantity(f"shared {kind} bank conflicts", traffic("shared", kind, "bank_conflicts"), conflicts))
    never = [
        ("f32 add, threads", threads("float_add"), ADD),
        ("f32 multiply, threads", threads("float_mul"), MUL),
        ("f32 fused multiply-add, threads", threads("fma"), FMA),
        ("integer, threads", threads("integer"), THREAD.format("integer")),
        ("control, threads", threads("control"), THREAD.format("control")),
        ("conversion, threads", threads("convert"), THREAD.format("conversion")),
        ("global load instructions, warps", traffic("global", "load", "requests"), "smsp__inst_executed_op_global_ld.sum"),
        ("global store instructions, warps", traffic("global", "store", "requests"), "smsp__inst_executed_op_global_st.sum"),
        ("all instructions, warps", all_instructions, "smsp__inst_executed.sum"),
    ]
    # No counter of ncu's own: the sum of three.
    found.append(Quantity("f32 add + multiply, threads", operations, ("fadd + fmul + 2 ffma",), "floats"))
    return found + [Quantity(name, simulated, (metric,), "never") for name, simulated, metric in never]


QUANTITIES = quantities()
METRICS = list(dict.fromkeys(m for q in QUANTITIES for m in q.metrics if m.endswith(".sum")))
# Without these there is nothing to compare.
ESSENTIAL = [m for m in METRICS if m.startswith("l1tex__t_")]


def say(text):
    print(text, file=sys.stderr, flush=True)


def execute(command, limit):
    """Exit code, standard output and standard error; the exit code is a text where there is none."""
    environment = dict(os.environ, LC_ALL="C")
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=limit, env=environment)
        return done.returncode, done.stdout, done.stderr
    except subprocess.TimeoutExpired as e:
        decode = lambda t: t.decode(errors="replace") if isinstance(t, bytes) else t or ""
        return f"ran longer than {limit} s", decode(e.stdout), decode(e.stderr)
    except OSError as e:
        return str(e), "", ""


def run_arguments(case, device):
    # From the naive schedule, so that neither a tuner's store nor a winner decides a knob that is not named.
    return ["run", case.name, "--device", device, "--preset", "naive", "--set", case.knobs, "--size", case.size, "--json"]


def json_line(text):
    """The object that `autotune run --json` prints, among whatever else was printed."""
    for line in text.splitlines():
        if line.startswith("{"):
            try:
                value = json.loads(line)
            except ValueError:
                continue
            if "equal_to" in value:
                return value
    return None


def simulate(autotune, target, case):
    target = ["--target", target] if target else []
    code, out, err = execute([autotune, *run_arguments(case, "sim"), "--counters", *target], 300)
    value = json_line(out)
    if value is None or not value.get("launches"):
        return {"error": f"simulator: exit {code}: {(err or out).strip()[-800:]}"}
    if len(value["launches"]) != 1:
        return {"error": f"simulator: {len(value['launches'])} launches, where the comparison expects one"}
    return {"launch": value["launches"][0]}


def parse_csv(text):
    """Metrics by name of the first profiled launch in ncu's CSV, of the raw page (a column each) or the details page (a row each)."""
    lines = text.splitlines()
    start = next((i for i, l in enumerate(lines) if l.startswith('"ID"')), None)
    if start is None:
        return None
    rows = [r for r in csv.reader(io.StringIO("\n".join(lines[start:])))]
    header = rows[0]
    data = [dict(zip(header, r)) for r in rows[1:] if len(r) == len(header) and r[0].strip().isdigit()]
    if not data:
        return None
    first = [r for r in data if r["ID"] == data[0]["ID"]]
    found = {k: first[0].get(k, "") for k in ("Kernel Name", "Block Size", "Grid Size")}
    if "Metric Name" in header:
        found.update({r["Metric Name"]: r["Metric Value"] for r in first})
    else:
        found.update(first[0])
    return found | {"launches": len({r["ID"] for r in data})}


def number(text):
    """The number of a CSV field, or None: "1,024", "1024.00", "n/a"."""
    try:
        return float(str(text).replace(",", "").replace("'", "").strip())
    except ValueError:
        return None


def unknown_metrics(text, asked):
    """Those that ncu complains about: `==ERROR== Failed to find metric regex:^NAME\\.sum...`."""
    names = set()
    for line in text.splitlines():
        if re.search(r"(ERROR|WARNING|rror).*metric", line):
            plain = line.replace("\\", "")
            hits = [m for m in asked if m in plain]
            # Some versions name the metric without its roll-up.
            names.update(hits or [m for m in asked if re.search(rf"\b{re.escape(m.removesuffix('.sum'))}(?![a-z_])", plain)])
    return names


class Profiler:
    """Runs ncu, and remembers which metrics it does not know."""

    def __init__(self, ncu, autotune):
        self.ncu, self.autotune = ncu, autotune
        self.metrics = list(METRICS)
        self.dropped = {}

    def once(self, case, function, metrics):
        command = [self.ncu, "--clock-control", "none", "--target-processes", "all", "--kernel-name", f"regex:^{re.escape(function)}$"]
        command += ["--launch-count", "1", "--csv", "--page", "raw", "--print-units", "base", "--metrics", ",".join(metrics)]
        code, out, err = execute([*command, self.autotune, *run_arguments(case, "cuda")], 150)
        return {"exit": code, "stdout": out, "stderr": err}

    def drop(self, names, why):
        for name in sorted(names):
            say(f"ncu does not count {name}: {why}")
            self.dropped[name] = why
        self.metrics = [m for m in self.metrics if m not in names]

    def profile(self, case, function):
        """ncu's output for a case. Metrics that ncu refuses are dropped, and the run is repeated without them."""
        while True:
            result = self.once(case, function, self.metrics)
            text = result["stdout"] + "\n" + result["stderr"]
            if parse_csv(text) is not None:
                return result
            refused = unknown_metrics(text, self.metrics) - set(ESSENTIAL)
            if refused:
                why = next((l.strip() for l in text.splitlines() if "metric" in l and "rror" in l.lower()), "refused")
                self.drop(refused, why)
                continue
            rest = [m for m in self.metrics if m not in ESSENTIAL]
            if not rest:
                return result
            # ncu failed without a name: which half of the others does it refuse? If even the essential ones fail, it is not that.
            if parse_csv(self.joined(case, function, ESSENTIAL)) is None:
                return result
            self.drop(self.refused(case, function, rest), "the profile failed with it")

    def joined(self, case, function, metrics):
        result = self.once(case, function, metrics)
        return result["stdout"] + "\n" + result["stderr"]

    def refused(self, case, function, metrics):
        """The metrics with which a profile fails, by halving."""
        if parse_csv(self.joined(case, function, ESSENTIAL + metrics)) is not None:
            return set()
        if len(metrics) == 1:
            return set(metrics)
        half = len(metrics) // 2
        return self.refused(case, function, metrics[:half]) | self.refused(case, function, metrics[half:])


def dimension(text):
    """The product of "(98, 1, 1)"."""
    numbers = [int(n) for n in re.findall(r"\d+", text or "")]
    product = 1
    for n in numbers:
        product *= n
    return product if numbers else None


@dataclass
class Row:
    quantity: str
    metric: str
    required: bool
    simulated: float
    measured: object
    verdict: str


def measured(metric, values):
    if metric.endswith(".sum"):
        return number(values.get(metric))
    parts = [number(values.get(m)) for m in (ADD, MUL, FMA)]
    return None if None in parts else parts[0] + parts[1] + 2 * parts[2]


def compare(case, launch, values):
    """The rows of a case and what is wrong with it."""
    rows, wrong = [], []
    for key, ours in (("Grid Size", launch["grid"]), ("Block Size", launch["block"])):
        theirs = dimension(values.get(key))
        if theirs is not None and theirs != ours:
            wrong.append(f"{key.lower()} is {values[key]} under ncu and {ours} in the simulator: not the same launch")
    if values["launches"] != 1:
        wrong.append(f"ncu profiled {values['launches']} launches instead of one")
    for q in QUANTITIES:
        ours = q.simulated(launch)
        required = q.required == "always" or q.required == "floats" and case.floats
        read = [(m, measured(m, values)) for m in q.metrics]
        known = [(m, v) for m, v in read if v is not None]
        if required and not known:
            wrong.append(f"{q.name}: ncu gives none of {', '.join(q.metrics)}")
        elif required and all(v != ours for _, v in known):
            wrong.append(f"{q.name}: simulator {ours}, ncu {' or '.join(f'{v:.0f}' for _, v in known)}")
        if ours == 0 and all(v == 0 for _, v in known):
            continue
        for metric, value in known:
            verdict = "equal" if value == ours else "**differs**" if required else "differs"
            rows.append(Row(q.name, metric, required, ours, value, verdict))
    return rows, wrong


LEGEND = """# The simulator's counts beside Nsight Compute's

{machine}

Both ran the same kernel under the same schedule, on the same random data.
"must" marks the counts that have to be equal: requests and sectors of global memory; requests, wavefronts and bank conflicts of shared
memory; and f32 additions and multiplications where nothing else in the kernel uses the f32 units and the size is a multiple of the tile
(a fused one is both, since the compiler decides what it fuses).
Where ncu has two counters for one thing (the hardware's, `l1tex__`, and that of instrumented instructions, `smsp__sass_`), both are
shown and one has to be equal.
The others depend on what the CUDA compiler makes of the source and are shown for information; the simulator counts instructions of SIMT
IR, and minima, maxima and comparisons as additions. Counts that are 0 on both sides are left out.
"""


def report(saved):
    """The markdown and whether all that must be equal is."""
    out, summary, failures, kernels = [], [], 0, set()
    details = []
    for case in CASES:
        entry = saved["cases"].get(case.title)
        if entry is None:
            continue
        rows, wrong = [], []
        if "error" in entry:
            wrong.append(entry["error"])
        else:
            text = entry["ncu"]["stdout"] + "\n" + entry["ncu"]["stderr"]
            values = parse_csv(text)
            if values is None:
                wrong.append(f"ncu: exit {entry['ncu']['exit']}, no profile: {text.strip()[-1500:]}")
            else:
                rows, wrong = compare(case, entry["launch"], values)
            if json_line(entry["ncu"]["stdout"]) is None and values is not None:
                wrong.append(f"the run under ncu did not end well: {text.strip()[:800]}")
        must = [r for r in rows if r.required]
        names = {r.quantity for r in must}
        equal = {r.quantity for r in must if r.verdict == "equal"}
        verdict = "equal" if not wrong else "**no**"
        failures += bool(wrong)
        if not wrong:
            kernels.add(case.name)
        summary.append(f"| {case.name} | {case.knobs} | {case.size} | {len(equal)} of {len(names)} | {verdict} |")
        details.append(f"\n### {case.name}, {case.knobs}, {case.size}\n")
        details += [f"- {w}" for w in wrong]
        if rows:
            details.append("\n| count | ncu's metric | must | simulator | ncu | |\n|---|---|---|---:|---:|---|")
            for r in rows:
                must = "must" if r.required else ""
                details.append(f"| {r.quantity} | `{r.metric}` | {must} | {r.simulated} | {r.measured:.0f} | {r.verdict} |")
    out.append(LEGEND.format(machine=saved.get("machine", "")))
    for name, why in saved.get("dropped", {}).items():
        out.append(f"ncu has no `{name}`: {why}\n")
    out.append(f"{len(summary) - failures} of {len(summary)} cases agree; kernels with a case that agrees: {len(kernels)}.\n")
    out.append("| kernel | schedule | size | counts that must be equal and are (0 = 0 left out) | |\n|---|---|---|---|---|")
    out += summary + ["\n## Every count"] + details
    return "\n".join(out) + "\n", failures == 0 and bool(summary)


def find_ncu(given):
    places = [given] if given else ["ncu", "/usr/local/cuda/bin/ncu", *sorted(glob.glob("/opt/nvidia/nsight-compute/*/ncu"), reverse=True)]
    return next((p for p in map(shutil.which, places) if p), None)


def gpu():
    """The GPU's name and driver, and the target of that name if autotune knows it."""
    code, out, _ = execute(["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"], 30)
    name = out.splitlines()[0].strip() if code == 0 and out.strip() else "unknown GPU"
    words = name.lower().replace("-", " ").replace(",", " ").split()
    return name, next((t for t in ("t4", "a100", "h100", "h200", "b200") if t in words), None)


def measure(args):
    autotune = os.path.abspath(args.autotune)
    ncu = find_ncu(args.ncu)
    if not os.access(autotune, os.X_OK):
        sys.exit(f"{autotune} is no program; give the autotune binary with --autotune")
    if ncu is None:
        sys.exit("ncu is not on the PATH, nor in /usr/local/cuda/bin or /opt/nvidia/nsight-compute; give it with --ncu")
    name, target = gpu()
    _, version, _ = execute([ncu, "--version"], 30)
    version = next((l.strip() for l in reversed(version.splitlines()) if "ersion" in l), "ncu")
    cases = [c for c in CASES if not args.only or args.only in c.title]
    saved = {"machine": f"{name}; ncu: {version}", "dropped": {}, "cases": {}}
    start = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:
        results = list(pool.map(lambda c: simulate(autotune, args.target or target, c), cases))
    say(f"simulated {len(cases)} cases in {time.monotonic() - start:.1f} s; {name}; {ncu}: {version}")
    profiler, failed = Profiler(ncu, autotune), 0
    for case, entry in zip(cases, results):
        saved["cases"][case.title] = entry
        if "error" in entry:
            say(f"{case.title}: {entry['error']}")
        elif time.monotonic() - start > args.budget:
            entry["error"] = f"not profiled: the budget of {args.budget} s was spent"
        elif failed == 3:
            entry["error"] = "not profiled: ncu gave no profile three times in a row"
        else:
            began = time.monotonic()
            entry["ncu"] = profiler.profile(case, entry["launch"]["kernel"])
            took = time.monotonic() - began
            values = parse_csv(entry["ncu"]["stdout"] + "\n" + entry["ncu"]["stderr"])
            failed = failed + 1 if values is None else 0
            verdict = "no profile" if values is None else "; ".join(compare(case, entry["launch"], values)[1]) or "equal"
            say(f"{case.title}: {verdict} ({took:.1f} s)")
        saved["dropped"] = profiler.dropped
        if args.save:
            with open(args.save, "w") as file:
                json.dump(saved, file)
    return saved


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--autotune", default="target/release/autotune", help="the binary")
    parser.add_argument("--ncu", help="Nsight Compute's command line, if it is not on the PATH")
    parser.add_argument("--target", help="what the simulator simulates; the GPU's own name without")
    parser.add_argument("--only", help="cases whose title has this text")
    parser.add_argument("--budget", type=float, default=480, help="seconds after which no further case is profiled")
    parser.add_argument("--save", metavar="FILE", help="write the output of both here, after every case")
    parser.add_argument("--replay", metavar="FILE", help="report on what --save wrote, without a GPU")
    args = parser.parse_args()
    if args.replay:
        with open(args.replay) as file:
            saved = json.load(file)
    else:
        saved = measure(args)
    text, equal = report(saved)
    print(text, end="")
    sys.exit(0 if equal else 1)


if __name__ == "__main__":
    main()
