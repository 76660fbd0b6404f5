"""Mutation testing of the numerical modules: ``python tests/mutants.py --cover``, then ``python tests/mutants.py``.

A mutant is the package with one small change: ``<`` for ``<=``, 2 for 1, a branch the other way round. The tests that
execute the changed line should fail on it (killed); where they all pass (survived), either the change makes no
difference or a test is missing. Not a test: the first command runs the whole suite under coverage and prints the line
coverage, the second tries 500 mutants and takes hours. Both need the extra ``mutants``.

What keeps it affordable and honest:

- A mutant meets only tests that execute its line (a constant: the lines that name it), then the other tests of their
  files, since a shared fixture runs a line once for a whole file; the quickest first, until ``--seconds`` of tests are
  spent. Tests left out are counted beside a survivor. Tests that did not pass under coverage are not used, and a test
  that killed must pass without a mutant at the end, else its verdicts are taken back.
- The sample is drawn from places in the code, each with the same chance, then one of the changes possible there.
  Annotations and ``raise`` statements are left alone, and a replacement stays in its family: ``+`` becomes ``/`` but
  not ``|``, which fails at once on floats and would flatter the result.
- Lines that only a subprocess executes have no tests here, and count as survived.

Every verdict is a line of ``verdicts.jsonl`` in the folder, so an interrupted run goes on where it was; a verdict on
another text of the module is none. After a change of ``src/``, run ``--cover`` again: line numbers have moved. After
adding tests, ``--cover tests/that_file.py`` adds them to what is known, and ``--again`` tries the survivors once more.
All of it is in this one file, longer than others, because nothing else uses any part of it.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import hashlib
import importlib.util
import json
import os
import queue
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator, operator_names
from coverage import CoverageData

REPOSITORY = Path(__file__).resolve().parents[1]
PACKAGE = Path(importlib.util.find_spec("latentfit").origin).parent
STAGES = ("moments", "init", "em", "select", "diagnostics", "theory")
ROOMS = [
    path.relative_to(PACKAGE).as_posix()
    for path in sorted(PACKAGE.glob("*/*"))
    if path.stem in STAGES or path.parent.name == "core"
]
"""Modules and folders of the mathematics."""
FAMILIES = [
    {"Add", "Sub", "Mul", "Div", "FloorDiv", "Mod", "Pow"},
    {"BitOr", "BitAnd", "BitXor", "LShift", "RShift"},
    {"Eq", "NotEq", "Lt", "LtE", "Gt", "GtE"},
    {"Is", "IsNot"},
    {"USub", "UAdd"},
    {"Delete", "Invert"},
    {"Delete", "Not"},
]
"""What may replace what; the names are those of cosmic-ray's operators."""
ABOUT_MODULES = ("tests/docs/test_numbers.py", "tests/system/test_values.py")
"""Tests that look at what an import made, constants and classes, and need not execute a line that uses them."""
SLOWER = 5
"""A test this many times slower than under coverage (and ten seconds) is in an endless loop: killed."""


# What can be changed


@dataclass(frozen=True, order=True)
class Mutation:
    """One change: cosmic-ray's `operator` at the `occurrence`-th node of `module` that it fits."""

    module: str
    line: int
    column: int
    operator: str
    occurrence: int

    @property
    def place(self) -> tuple[str, int, int, str]:
        """Where it is and of what kind; the several replacements of one ``+`` share a place."""
        return self.module, self.line, self.column, self.operator.partition("_")[0]

    @cached_property
    def code(self) -> str | None:
        """The module with the change, or None when that is not Python or no change."""
        text = source(self.module).text
        code = mutate_code(text, get_operator(self.operator)(), self.occurrence)
        try:
            same = ast.dump(ast.parse(code)) == ast.dump(ast.parse(text))
        except SyntaxError:
            return None
        return None if same else code

    @property
    def diff(self) -> str:
        lines = difflib.unified_diff(source(self.module).text.splitlines(), self.code.splitlines(), lineterm="", n=0)
        return "\n".join(line for line in lines if not line.startswith(("---", "+++", "@@")))

    @property
    def key(self) -> str:
        digest = hashlib.sha256(source(self.module).text.encode()).hexdigest()[:12]
        return f"{self.module}:{self.line}:{self.column} {self.operator} {self.occurrence} {digest}"


def mutations(module: str) -> Iterator[Mutation]:
    """All changes of a module that the operators without arguments can make."""
    operators = {}
    for name in operator_names():
        words = set(name.split("_")[1:])
        if not get_operator(name).arguments() and (not words or any(words <= family for family in FAMILIES)):
            operators[name] = get_operator(name)()
    occurrence = Counter()
    for node in ast_nodes(get_ast(source(module).text)):
        if node.type in ("name", "newline", "string") or (node.type == "operator" and node.value in "()[]{},.:="):
            continue  # nothing fits these, and they are most of the tree
        for name, operator in operators.items():
            for (line, column), _ in operator.mutation_positions(node):
                if not idle(node):
                    yield Mutation(module, line, column, name, occurrence[name])
                occurrence[name] += 1


def idle(node) -> bool:
    """Whether a node of the parse tree stands in an annotation or in what is raised."""
    while (parent := node.parent) is not None:
        if (
            parent.type in ("raise_stmt", "tfpdef")
            or (parent.type == "annassign" and node is parent.children[1])
            or (parent.type == "funcdef" and node is parent.annotation)
        ):
            return True
        node = parent
    return False


def draw(modules: list[str], number: int, seed: int) -> list[Mutation]:
    """`number` changes at different places."""
    places = defaultdict(list)
    for module in modules:
        for mutation in mutations(module):
            places[mutation.place].append(mutation)
    rng = random.Random(seed)
    drawn = []
    for place in rng.sample(sorted(places), len(places)):
        mutation = rng.choice(places[place])
        if mutation.code is not None:
            drawn.append(mutation)
        if len(drawn) == number:
            break
    return drawn


# Which tests execute a line


class Source:
    """A module's text, and which of its lines run together."""

    def __init__(self, module: str) -> None:
        self.text = (PACKAGE / module).read_text(encoding="utf-8")
        self.lines = self.text.splitlines()
        self.statement: dict[int, range] = {}  # line → the lines of its statement, without the body of an if or for
        self.in_function: set[int] = set()  # lines that run when called, not on import
        self.top: dict[int, tuple[range, set[str]]] = {}  # line → all of the outermost statement, the names it makes
        self.definitions: set[int] = set()  # lines of functions and classes
        tree = ast.parse(self.text)
        for node in ast.walk(tree):  # outer nodes come first, so inner ones have the last word
            if isinstance(node, ast.stmt | ast.ExceptHandler):
                first = min([node.lineno, *(at.lineno for at in getattr(node, "decorator_list", []))])
                last = max(first, node.body[0].lineno - 1) if hasattr(node, "body") else node.end_lineno
                self.statement.update(dict.fromkeys(range(first, node.end_lineno + 1), range(first, last + 1)))
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                    self.in_function.update(range(node.body[0].lineno, node.end_lineno + 1))
                if node in tree.body:
                    whole = range(first, node.end_lineno + 1)
                    names = [at for at in ast.walk(node) if isinstance(at, ast.Name)]
                    stored = {at.id for at in names if isinstance(at.ctx, ast.Store)}
                    made = {node.name} if hasattr(node, "name") else stored
                    self.top.update(dict.fromkeys(whole, (whole, made)))
                    self.definitions.update(whole if hasattr(node, "name") else ())


@cache
def source(module: str) -> Source:
    """The module as it was when the run began."""
    return Source(module)


class Tests:
    """The tests that passed under coverage: how long they took, and the lines they executed."""

    def __init__(self, folder: Path) -> None:
        self.seconds: dict[str, float] = {}
        for log in sorted(folder.glob("tests-*.jsonl")):
            self.seconds |= passed(log)
        self._data = CoverageData(str(folder / "coverage"))
        self._data.read()
        self._test_of = {context: context.rpartition("|")[0] for context in self._data.measured_contexts()}
        self._modules = [str(path.relative_to(PACKAGE)) for path in sorted(PACKAGE.rglob("*.py"))]

    @cache  # noqa: B019 - there is one of these for the whole run
    def _by_line(self, module: str) -> dict[int, frozenset[str]]:
        shared: dict[frozenset[str], frozenset[str]] = {}  # lines of one function have thousands of tests in common
        found = {}
        for line, contexts in self._data.contexts_by_lineno(str(PACKAGE / module)).items():
            tests = frozenset(self._test_of[context] for context in contexts)
            found[line] = shared.setdefault(tests, tests)
        return found

    def _in_bodies(self, module: str, lines: range) -> set[str]:
        return set().union(*(self._by_line(module).get(at, ()) for at in lines if at in source(module).in_function))

    def executing(self, module: str, line: int) -> set[str]:
        """Tests that execute the statement at a line, or, of a statement that runs on import, what it defines."""
        here = source(module)
        if line in here.in_function:
            return self._in_bodies(module, here.statement[line])
        whole, names = here.top[line]
        found, asked = self._in_bodies(module, whole), set()
        while names - asked:  # a constant may be made of another
            word = re.compile(rf"\b({'|'.join(map(re.escape, sorted(names - asked)))})\b")
            asked, names = asked | names, set()
            for other in self._modules:
                there = source(other)
                for at in (at for at, text in enumerate(there.lines, 1) if word.search(text) and at in there.top):
                    body, made = there.top[at]
                    inside = at in there.in_function
                    found |= self._in_bodies(other, there.statement[at] if inside else body)
                    names |= set() if inside or at in there.definitions else made
        return found

    def chosen(self, mutation: Mutation, seconds: float) -> tuple[list[str], int]:
        """The tests for a mutant in the order to run them, and how many did not fit into the time."""
        executing = self.executing(mutation.module, mutation.line) & self.seconds.keys()
        if mutation.line not in source(mutation.module).in_function:
            executing |= {test for test in self.seconds if file_of(test) in ABOUT_MODULES}
        files = {file_of(test) for test in executing}
        order = sorted(
            (test for test in self.seconds if file_of(test) in files),
            key=lambda test: (test not in executing, self.seconds[test], test),
        )
        spent, fitting = 0.0, []
        for test in order:
            spent += self.seconds[test]
            if fitting and spent > seconds:
                break
            fitting.append(test)
        # File by file, because pytest sets a module's fixtures up again when it comes back to the file.
        total = Counter()
        for test in fitting:
            total[file_of(test)] += self.seconds[test]
        fitting.sort(key=lambda test: (total[file_of(test)], file_of(test), self.seconds[test], test))
        return fitting, len(order) - len(fitting)


def file_of(test: str) -> str:
    return test.partition("::")[0]


def passed(log: Path) -> dict[str, float]:
    """The tests of a report log that passed, with the seconds of setup, call and teardown."""
    seconds, calls, failed = Counter(), set(), set()
    for line in log.read_text(encoding="utf-8").splitlines():
        report = json.loads(line)
        if report.get("$report_type") == "TestReport":
            seconds[report["nodeid"]] += report["duration"]
            if report["outcome"] != "passed":
                failed.add(report["nodeid"])
            elif report["when"] == "call":
                calls.add(report["nodeid"])
    return {test: seconds[test] for test in calls - failed}


def cover(folder: Path, tests: list[str]) -> int:
    """Run the suite (or, adding to what is known, some tests) and note which test executes which line."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in [] if tests else folder.glob("tests-*.jsonl"):
        old.unlink()
    log = folder / f"tests-{time.time_ns()}.jsonl"
    words = ["--cov=latentfit", "--cov-context=test", "--cov-report=term", f"--report-log={log}", "-q"]
    words += ["--cov-append", *tests] if tests else ["-n", str(os.cpu_count()), "--dist", "worksteal"]
    command = [sys.executable, "-m", "pytest", "-o", "addopts=", *words]
    env = os.environ | {"COVERAGE_FILE": str(folder / "coverage")}
    return subprocess.run(command, cwd=REPOSITORY, env=env).returncode


# One mutant


def package_copy(folder: Path) -> Path:
    """A folder for PYTHONPATH with the package in it; bytecode and times come along."""
    shutil.copytree(PACKAGE, folder / "latentfit")
    return folder


def run_tests(tests: list[str], copy: Path, *options: str, each: float, all_: float) -> tuple[int | None, str]:
    """Exit code (None: out of time) and output of pytest on the package in `copy`."""
    listed = copy / "tests.txt"
    listed.write_text("\n".join(tests), encoding="utf-8")
    limit = [f"faulthandler_timeout={each:.0f}", "faulthandler_exit_on_timeout=true"]
    command = [sys.executable, "-m", "pytest", "-q", "-rfE", "--tb=no", "-p", "no:cacheprovider", *options]
    command += ["--hypothesis-profile=mutants", "-o", "addopts=", "-o", limit[0], "-o", limit[1], f"@{listed}"]
    # No bytecode is written, so a module's cached bytecode stays that of the unchanged text and is used for it alone.
    path = os.pathsep.join(filter(None, [str(copy), os.environ.get("PYTHONPATH")]))
    env = os.environ | {"PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1"}
    said = copy / "output.txt"  # not a pipe, which a server left behind by a test would hold open
    with said.open("w") as file:
        process = subprocess.Popen(
            command, cwd=REPOSITORY, env=env, stdout=file, stderr=subprocess.STDOUT, start_new_session=True
        )
        try:
            code = process.wait(timeout=all_)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # and what the tests have started
            process.wait()
    return code, said.read_text(encoding="utf-8", errors="replace")


def failures(output: str) -> list[str]:
    """The tests that pytest's short summary names."""
    return re.findall(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", output, re.MULTILINE)


def verdict(mutation: Mutation, tests: Tests, copy: Path, seconds: float) -> dict:
    """Try one mutant in a private copy of the package."""
    resume_from = time.monotonic()
    chosen, left_out = tests.chosen(mutation, seconds)
    by = ""
    if chosen:
        took = [tests.seconds[test] for test in chosen]
        changed = copy / "latentfit" / mutation.module
        changed.write_text(mutation.code, encoding="utf-8")
        code, output = run_tests(chosen, copy, "-x", each=10 + SLOWER * max(took), all_=60 + SLOWER * sum(took))
        shutil.copy2(PACKAGE / mutation.module, changed)
        failed = failures(output)
        if "ERROR: not found:" in output and not failed:
            raise LookupError(f"The tests are others than under coverage; run --cover again. {output.strip()}")
        if code is None or "Timeout (" in output:
            by = "time"
        elif code != 0:
            by = failed[0] if failed else output.strip().splitlines()[-1]
    return {
        "key": mutation.key,
        "verdict": "killed" if by else "survived",
        "by": by,
        "tests": len(chosen),
        "left_out": left_out,
        "seconds": round(time.monotonic() - resume_from, 1),
        "diff": mutation.diff,
    }


# The run


def read_verdicts(path: Path) -> tuple[dict[str, dict], set[str]]:
    """Verdicts by mutant, and the tests that fail without a mutant; a line cut off by an interruption is none."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    records = []
    for line in lines:
        with suppress(ValueError):
            records.append(json.loads(line))
    unfit = {record["unfit"] for record in records if "unfit" in record}
    return {record["key"]: record for record in records if "key" in record and record["by"] not in unfit}, unfit


def attempts(mutants: list[Mutation], tests: Tests, seconds: float, jobs: int) -> Iterator[dict]:
    """Their verdicts, in order; every job has a copy of the package."""
    with tempfile.TemporaryDirectory() as folder:
        copies: queue.SimpleQueue[Path] = queue.SimpleQueue()
        for job in range(jobs):
            copies.put(package_copy(Path(folder) / str(job)))

        def attempt(mutation: Mutation) -> dict:
            copy = copies.get()
            try:
                return verdict(mutation, tests, copy, seconds)
            finally:
                copies.put(copy)

        pool = ThreadPoolExecutor(jobs)
        try:
            yield from pool.map(attempt, mutants)
        finally:
            pool.shutdown(cancel_futures=True)


def failing_anyway(killers: list[str], tests: Tests) -> list[str]:
    """Those of the tests that fail on a copy without a change."""
    limit = 600 + SLOWER * sum(tests.seconds[test] for test in killers)
    with tempfile.TemporaryDirectory() as folder:
        code, output = run_tests(killers, package_copy(Path(folder)), each=limit, all_=limit)
    if code not in (0, 1):
        sys.exit(f"The tests that killed could not be tried without a mutant: {output or 'out of time'}")
    return failures(output)


def run(drawn: list[Mutation], tests: Tests, path: Path, *, seconds: float, jobs: int, again: bool) -> dict[str, dict]:
    """A verdict on every mutant, from the file or from running it."""
    known, unfit = read_verdicts(path)
    for test in unfit:
        tests.seconds.pop(test, None)
    missing = [at for at in drawn if at.key not in known or (again and known[at.key]["verdict"] == "survived")]
    with path.open("a", encoding="utf-8") as file:
        for number, record in enumerate(attempts(missing, tests, seconds, jobs), 1):
            known[record["key"]] = record
            print(json.dumps(record), file=file, flush=True)
            where, _, _ = record["key"].rpartition(" ")
            said = f"{number}/{len(missing)} {where}: {record['verdict']} in {record['seconds']} s"
            print(said, file=sys.stderr, flush=True)
        killers = sorted({known[mutation.key]["by"] for mutation in drawn} & tests.seconds.keys())
        wrong = failing_anyway(killers, tests) if killers and missing else []
        for test in wrong:
            print(f"{test} fails without a mutant: its verdicts are taken back", file=sys.stderr)
            print(json.dumps({"unfit": test}), file=file)
    return run(drawn, tests, path, seconds=seconds, jobs=jobs, again=False) if wrong else known


def render(drawn: list[Mutation], verdicts: dict[str, dict]) -> str:
    """The table of modules and the list of survivors."""
    number = Counter(mutation.module for mutation in drawn)
    killed = Counter(mutation.module for mutation in drawn if verdicts[mutation.key]["verdict"] == "killed")
    lines = [f"{'module':<40}{'mutants':>8}{'killed':>8}"]
    lines += [f"{module:<40}{number[module]:>8}{killed[module]:>8}" for module in sorted(number)]
    share = 100 * killed.total() / max(1, number.total())
    lines += [f"{'all':<40}{number.total():>8}{killed.total():>8}  {share:.1f} %", ""]
    for mutation in sorted(drawn):
        record = verdicts[mutation.key]
        if record["verdict"] == "survived":
            left_out = f", {record['left_out']} left out" if record["left_out"] else ""
            lines += [f"{mutation.module}:{mutation.line} survived {record['tests']} tests{left_out}", record["diff"]]
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="*", help="rooms or modules in src/latentfit; with --cover, tests to add")
    parser.add_argument("--cover", action="store_true", help="run the suite and note which test executes which line")
    parser.add_argument("--sample", type=int, default=500, metavar="N", help="mutants to try (default 500)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the sample (default 0)")
    parser.add_argument("--seconds", type=float, default=60.0, help="tests a mutant may meet, in seconds (default 60)")
    parser.add_argument("--jobs", type=int, default=1, help="mutants at a time (default 1)")
    parser.add_argument("--again", action="store_true", help="try the survivors once more")
    parser.add_argument("--folder", type=Path, default=REPOSITORY / "build" / "mutants", help="what is known")
    chosen = parser.parse_args()
    folder = chosen.folder.resolve()
    if chosen.cover:
        return cover(folder, chosen.paths)
    if not (folder / "coverage").exists():
        parser.error("which test executes which line is not known yet: run python tests/mutants.py --cover first")
    roots = [PACKAGE / path for path in chosen.paths or ROOMS]
    files = sorted(file for root in roots for file in (root.rglob("*.py") if root.is_dir() else [root]))
    drawn = draw([str(file.relative_to(PACKAGE)) for file in files], chosen.sample, chosen.seed)
    known = {"tests": Tests(folder), "path": folder / "verdicts.jsonl"}
    print(render(drawn, run(drawn, **known, seconds=chosen.seconds, jobs=chosen.jobs, again=chosen.again)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
