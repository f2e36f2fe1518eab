"""The rooms of the house: which module may import which, read from the source without running it."""

from __future__ import annotations

import ast
from pathlib import Path

import coad

SOURCE = Path(coad.__file__).parent

#: Each room may import the rooms before it and itself. A module is in the room that its path names.
ROOMS = (
    ("exceptions", "_typing"),
    ("_extras",),
    ("_lazy",),
    ("core",),
    ("data",),
    ("thresholds",),
    ("learned",),
    ("modes",),
    ("events", "explain", "kinds"),
    ("findings",),
    ("adapters",),
    ("workflows",),
    ("report",),
    ("web",),
    ("app", "live", "scale", "export"),
    ("streams",),
    ("cli",),
    ("research",),
    ("__main__",),
)
RANK = {room: rank for rank, rooms in enumerate(ROOMS) for room in rooms}


def module_paths() -> dict[str, Path]:
    paths = {}
    for path in sorted(SOURCE.rglob("*.py")):
        parts = ("coad", *path.relative_to(SOURCE).with_suffix("").parts)
        paths[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return paths


PATHS = module_paths()


def imports_of(name: str, *, types: bool) -> set[str]:
    """The modules of coad that a module imports, in functions too; ``types`` adds imports for type checkers."""
    found: set[str] = set()

    def visit(node: ast.AST) -> None:
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING" and not types:
            return
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name} has a relative import"
            module = node.module or ""
            found.update(
                f"{module}.{alias.name}" if f"{module}.{alias.name}" in PATHS else module
                for alias in node.names
            )
        for child in ast.iter_child_nodes(node):
            visit(child)

    visit(ast.parse(PATHS[name].read_text(encoding="utf-8")))
    return {module for module in found if module in PATHS and module not in ("coad", name)}


def room_of(name: str) -> str:
    return name.split(".")[1]


def test_every_module_is_in_a_known_room() -> None:
    unknown = {room_of(name) for name in PATHS if name != "coad"} - set(RANK)
    assert not unknown, f"rooms that have no place in the order: {sorted(unknown)}"


def test_no_import_goes_upward() -> None:
    upward = [
        f"{name} imports {other}"
        for name in PATHS
        if name != "coad"
        for other in sorted(imports_of(name, types=True))
        if RANK[room_of(other)] > RANK[room_of(name)]
    ]
    assert not upward, "\n".join(upward)


def test_rooms_of_one_rank_do_not_import_each_other() -> None:
    sideways = [
        f"{name} imports {other}"
        for name in PATHS
        if name != "coad"
        for other in sorted(imports_of(name, types=True))
        if RANK[room_of(other)] == RANK[room_of(name)] and room_of(other) != room_of(name)
        if room_of(name) not in ("explain", "kinds")
    ]
    assert not sideways, "\n".join(sideways)


def test_no_import_is_circular() -> None:
    graph = {name: imports_of(name, types=False) for name in PATHS if name != "coad"}
    while True:
        leaves = {name for name, others in graph.items() if not others}
        if not leaves:
            break
        graph = {name: others - leaves for name, others in graph.items() if name not in leaves}
    # What can be reached from itself is in a cycle; the rest only imports one.
    cycles = sorted(name for name in graph if name in reachable(graph, name))
    assert not cycles, f"modules that import each other in a circle: {cycles}"


def reachable(graph: dict[str, set[str]], start: str) -> set[str]:
    seen: set[str] = set()
    waiting = list(graph[start])
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            waiting.extend(graph[name])
    return seen


def test_core_imports_neither_torch_nor_files() -> None:
    heavy = ("torch", "pyarrow", "h5py", "plotly", "fastapi", "safetensors")
    for name, path in PATHS.items():
        if name.startswith("coad.core"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
                names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
                assert not any(n.split(".")[0] in heavy for n in names), f"{name} imports {names}"


def test_files_stay_short_enough_to_read() -> None:
    long = {
        str(path.relative_to(SOURCE)): length
        for path in PATHS.values()
        if (length := len(path.read_text(encoding="utf-8").splitlines())) > 400
    }
    assert not long, f"files of more than 400 lines, which may hold two ideas: {long}"


#: What Windows does not have (or means otherwise), and the functions that may use it because they ask first.
POSIX_ONLY = {
    "os": {
        "chown", "fork", "forkpty", "geteuid", "getgid", "getpgid", "getuid", "kill", "killpg", "mkfifo", "nice", "pread",
        "pwrite", "sched_getaffinity", "sendfile", "setsid", "statvfs", "sysconf", "wait4",
    },
    "signal": {"SIGKILL", "SIGHUP", "SIGUSR1", "SIGUSR2", "SIGALRM", "alarm", "setitimer", "sigwait", "pthread_sigmask"},
}  # fmt: skip
POSIX_MODULES = {"fcntl", "grp", "pty", "pwd", "resource", "syslog", "termios", "tty"}
GUARDED = {
    ("coad.data.atomic", "_is_running", "os.kill"),
    ("coad.data.memory", "free_memory", "os.sysconf"),
    ("coad.scale.thresholds", "_threads", "os.sched_getaffinity"),
    ("coad.data.matlab", "child", "resource"),
}


def posix_calls(name: str) -> set[tuple[str, str, str]]:
    """(module, function, call) of everything in a module that Windows does not have."""
    found: set[tuple[str, str, str]] = set()

    def visit(node: ast.AST, function: str) -> None:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            function = node.name
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            if node.attr in POSIX_ONLY.get(node.value.id, ()):
                found.add((name, function, f"{node.value.id}.{node.attr}"))
        elif isinstance(node, ast.Import):
            found.update((name, function, one.name) for one in node.names if one.name in POSIX_MODULES)
        elif isinstance(node, ast.ImportFrom):
            used = POSIX_ONLY.get(node.module or "", set())
            found.update(
                (name, function, f"{node.module}.{one.name}") for one in node.names if one.name in used
            )
            if node.module in POSIX_MODULES:
                found.add((name, function, node.module))
        for child in ast.iter_child_nodes(node):
            visit(child, function)

    visit(ast.parse(PATHS[name].read_text(encoding="utf-8")), "")
    return found


def test_what_windows_does_not_have_is_used_only_where_it_is_asked_for_first() -> None:
    assert set().union(*map(posix_calls, PATHS)) == GUARDED
    asks = {
        "os.kill": "_WINDOWS",
        "os.sched_getaffinity": "hasattr",
        "os.sysconf": "AttributeError",
        "resource": "win32",
    }
    for module, function, call in GUARDED:
        text = PATHS[module].read_text(encoding="utf-8")
        body = next(
            ast.unparse(node)
            for node in ast.walk(ast.parse(text))
            if isinstance(node, ast.FunctionDef) and node.name == function
        )
        assert asks[call] in body
