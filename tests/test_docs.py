"""README and docs: every snippet runs, every link leads somewhere, every public name and command has its place."""

from __future__ import annotations

import ast
import importlib
import os
import re
import runpy
import shlex
import subprocess
import sys
import warnings
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv
import pyarrow.parquet as pq
import pytest
from makers import event_rows, plant, rows_around_axes

import coad

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
#: What the build of the pages writes into docs/ is no page of its own.
BUILT = ("auto_examples", "reference/commands", "reference/api")
PAGES = [
    ROOT / "README.md",
    *(path for path in sorted(DOCS.rglob("*.md")) if not path.relative_to(DOCS).as_posix().startswith(BUILT)),
]
TUTORIALS = sorted((DOCS / "tutorials").glob("*.py"))

#: Commands that are checked against the command line and not run: servers, other people's data, minutes of training.
PARSED_ONLY = {"explore", "watch", "stream", "bench", "reproduce", "demo"}
#: The same for options that need more events than the small tables have.
PARSED_OPTIONS = {"--kinds", "--dismiss"}
#: Pages whose code is taken from a running watch or cluster: it is checked for its grammar and its options.
PIECES = ("live", "live-sources", "live-page", "scale", "streams")
#: Pages that train models.
SLOW = ("README", "modes", "export", "ecosystem")
#: What tutorials need beside coad[learn] and matplotlib.
NEEDED = {"t7_live_mqtt": ("amqtt", "paho.mqtt"), "t8_many_stations": ("distributed",)}
#: Quicker training: the snippet's own options stay, and these are added.
QUICKER = {"fit": ("--starts", "1", "--epochs", "4"), "modes": ("--starts", "2")}


class Snippet(NamedTuple):
    line: int
    language: str
    text: str
    run: bool


def snippets(page: Path) -> list[Snippet]:
    """The fenced blocks of a page, with the number of their first line.

    ``<!-- not run: why -->`` above a block says that it is checked for its grammar and its options only.
    """
    text = page.read_text(encoding="utf-8")
    fence = re.compile(r"^(?P<fence>`{3,})(?P<language>[^\n`]*)\n(?P<body>.*?)^(?P=fence)\s*$", re.M | re.S)
    return [
        Snippet(
            text[: found.start()].count("\n") + 2,
            found["language"].strip(),
            found["body"],
            not re.search(r"<!-- not run: [^>]+ -->\n$", text[: found.start()]),
        )
        for found in fence.finditer(text)
    ]


def commands(snippet: Snippet) -> list[list[str]]:
    """The ``coad`` commands of a block that shows a terminal: their words, without comments."""
    joined = snippet.text.replace("\\\n", " ")
    lines = (line.strip().removeprefix("$ ") for line in joined.splitlines())
    return [shlex.split(line, comments=True) for line in lines if line.startswith("coad ")]


def parse(arguments: list[str]) -> None:
    """Check words after ``coad`` against the command line without running anything."""
    import typer

    from coad.__main__ import app

    command, name = typer.main.get_command(app), "coad"
    while hasattr(command, "commands"):
        name, *arguments = arguments
        command = command.commands[name]
    command.make_context(name, list(arguments))


@pytest.fixture
def at_home(tmp_path, monkeypatch):
    """A folder with the files that snippets speak of, small."""
    monkeypatch.chdir(tmp_path)
    for name, seed in (("plant", 0), ("new", 1), ("other", 2)):
        pq.write_table(pa.table(plant(6400, seed)), f"{name}.parquet")
    s, q, event = event_rows(800, (), rate=0.06, shift=(3, 3))
    table = {"score_s": s, "score_q": q, "run": np.arange(800) // 200, "event": event.astype(int)}
    pacsv.write_csv(pa.table(table), "scores.csv")


@pytest.fixture
def quicker_training(monkeypatch):
    """Defaults of the estimators that cost seconds, lowered; a snippet's own settings stay."""
    pytest.importorskip("torch")
    from coad import CoAD, CoincidenceModes

    for estimator, settings in ((CoAD, {"n_starts": 1, "epochs": 15}), (CoincidenceModes, {"steps": 80})):
        defaults = estimator.__init__.__kwdefaults__
        for name, value in settings.items():
            if name in defaults:
                monkeypatch.setitem(defaults, name, value)


def names_in_reach() -> dict[str, object]:
    """What a snippet may take for granted: the data of somebody who reads it."""
    s, q, _ = event_rows(600, (3,), rate=0.06, shift=(4, 4))
    s_new, q_new, _ = event_rows(300, (3,), rate=0.06, shift=(4, 4), seed=1)
    score_s, score_q, _ = event_rows(800, (), rate=0.06, shift=(3, 3))
    new_s, new_q, _ = event_rows(300, (), rate=0.06, shift=(3, 3), seed=1)
    return {
        "coad": coad, "np": np, "s": s, "q": q, "s_new": s_new, "q_new": q_new,
        "score_s": score_s, "score_q": score_q, "new_s": new_s, "new_q": new_q,
    }  # fmt: skip


def several_regimes() -> dict[str, object]:
    """Rows of four regimes and a rare kind, for snippets about modes."""
    s, q, _ = rows_around_axes((300, 200, 150, 100, 40))
    return {"s": s, "q": q, "s_new": s[:300], "q_new": q[:300]}


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(
            page,
            id=page.relative_to(ROOT).as_posix(),
            marks=[pytest.mark.slow] * (page.stem in SLOW),
        )
        for page in PAGES
        if snippets(page)
    ],
)
def test_every_snippet_of_a_page_runs(page, at_home, quicker_training, run_coad, monkeypatch):
    names = names_in_reach()
    whole = page.stem not in PIECES
    for snippet in snippets(page):
        where = f"{page.relative_to(ROOT)}, line {snippet.line}"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if "python" in snippet.language:
                if "CoincidenceModes(" in snippet.text:
                    names |= several_regimes()
                code = re.sub(r"\A(:\w.*\n)+", "", snippet.text)  # the options of a cell of a page
                monkeypatch.setattr(sys, "path", [*sys.path, str(DOCS / "_ext")])
                compiled = compile(code, where, "exec")
                if snippet.run and whole:
                    exec(compiled, names)
                continue
            for _, command, *arguments in commands(snippet):
                parse([command, *arguments])
                known = command not in PARSED_ONLY and not PARSED_OPTIONS & {*arguments}
                if snippet.run and whole and known:
                    ran = run_coad(command, *arguments, *QUICKER.get(command, ()))
                    assert ran.code == 0, f"{where}: coad {command} {shlex.join(arguments)}: {ran.err}"


def test_a_command_with_an_unknown_option_is_noticed():
    with pytest.raises(Exception, match="no-such-option"):
        parse(["find", "plant.parquet", "--no-such-option"])


@pytest.mark.slow
@pytest.mark.parametrize("script", TUTORIALS, ids=lambda path: path.stem)
def test_tutorial_runs(script, tmp_path, monkeypatch, run_coad):
    """The tutorials as a reader runs them, but their commands in this process: each saves two seconds of start-up."""
    pytest.importorskip("torch")
    for package in NEEDED.get(script.stem, ()):
        pytest.importorskip(package, reason=f"{script.stem} needs {package}")
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("agg")

    def run(words, **_):
        assert words[0] == "coad"
        ran = run_coad(*words[1:])
        assert ran.code == 0, ran.err
        return subprocess.CompletedProcess(words, 0, ran.out, ran.err)

    monkeypatch.chdir(tmp_path)
    if script.stem != "t8_many_stations":  # a cluster starts its workers from a program of its own
        monkeypatch.setattr(subprocess, "run", run)
    # What they leave running in the background is found as in an activated environment.
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        names = runpy.run_path(str(script))
    figures = matplotlib.pyplot.get_fignums()
    matplotlib.pyplot.close("all")
    assert figures, "a tutorial shows a picture"
    if script.stem == "t2_plant_table":
        assert (tmp_path / "run" / "report.html").stat().st_size > 100_000
        flagged, truth = names["flagged"], names["new"].event.to_numpy() == 1
        assert truth[flagged].mean() > 0.9, "after the decisions, what is flagged is the events"
        assert flagged[truth].mean() > 0.9
    if script.stem == "t7_live_mqtt":
        assert names["met"] == len(names["events"]), "every event was flagged while it came"
        assert len(names["found"]) <= 1.5 * len(names["events"])
        assert names["last"]["person"] == "Ada"
    if script.stem == "t8_many_stations":
        found = names["results"].query("p_holm < 0.05").source
        assert set(found) == set(names["WORN"]), "the worn pumps and no other"
        assert names["event"][names["flagged"]].mean() > 0.8


def test_every_link_of_readme_and_docs_leads_to_a_file():
    missing = []
    for page in [*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]:
        text = re.sub(r"^(`{3,}).*?^\1", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
        for address in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text):
            built = address.startswith(("auto_examples/", "../auto_examples/"))
            path = page.parent / (
                address.replace("auto_examples", "tutorials").replace(".rst", ".py") if built else address
            )
            if built and path.stem == "index":
                path = path.with_name("README.rst")
            if "://" not in address and not path.exists():
                missing.append(f"{page.relative_to(ROOT)}: {address}")
    assert not missing, "\n".join(missing)


def listed_names() -> set[str]:
    """The full names in the reference of Python."""
    found, module = set(), ""
    for line in (DOCS / "reference" / "python.rst").read_text(encoding="utf-8").splitlines():
        if line.startswith(".. currentmodule::"):
            module = line.split()[-1]
        elif re.fullmatch(r"   [\w.]+", line):
            found.add(f"{module}.{line.strip()}")
    return found


#: A type for annotations, whose words stand where it is used; and what loads only in the environment of Quix Streams, where
#: the pages are not built: `coad stream work`.
NOT_LISTED = {"BackgroundKind", "work"}
#: Packages whose every name is in the reference, but constants.
PUBLIC = (
    "coad",
    "coad.adapters",
    "coad.core.background",
    "coad.core.theory",
    "coad.data",
    "coad.exceptions",
    "coad.explain",
    "coad.export",
    "coad.kinds",
    "coad.live",
    "coad.scale",
    "coad.streams",
)
#: Packages without a promise: what of them is public is listed name by name, or reached through `coad`.
PRIVATE = {
    "app", "cli", "core", "events", "findings", "learned", "modes", "report", "research", "thresholds", "web", "workflows",
}  # fmt: skip


@pytest.mark.parametrize("room", PUBLIC)
def test_every_public_name_is_in_the_reference(room):
    module = importlib.import_module(room)
    names = getattr(module, "__all__", None) or [
        name for name, one in vars(module).items() if getattr(one, "__module__", None) == room
    ]
    public = {name for name in names if not (name.isupper() or name.startswith("_") or name in NOT_LISTED)}
    listed = {name.rpartition(".")[2] for name in listed_names() if name.startswith((room, "coad."))}
    assert public <= listed, f"add to docs/reference/python.rst: {sorted(public - listed)}"


def test_every_package_and_module_is_public_or_said_to_be_private():
    source = ROOT / "src" / "coad"
    rooms = {path.parent.name for path in source.glob("*/__init__.py")}
    modules = {path.stem for path in source.glob("*.py") if not path.stem.startswith("_")}
    open_to_users = {name.split(".")[1] for name in PUBLIC if "." in name}
    assert rooms | modules == PRIVATE | open_to_users
    promise = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").partition("**Protected**")[2]
    assert "in the reference" in promise


def imported_names(code: str) -> set[str]:
    """The full names of coad that a script imports."""
    found = set()
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "coad":
            found |= {f"{node.module}.{one.name}" for one in node.names if not one.name.isupper()}
    return found


def test_pages_and_tutorials_use_only_what_is_in_the_reference():
    codes = {path.name: path.read_text(encoding="utf-8") for path in TUTORIALS}
    for page in PAGES:
        for snippet in snippets(page):
            if "python" in snippet.language:
                code = re.sub(r"\A(:\w.*\n)+", "", snippet.text)
                codes[f"{page.relative_to(ROOT)}, line {snippet.line}"] = code
    used = {name: where for where, code in codes.items() for name in imported_names(code)}
    assert "coad.live.Store" in used
    missing = {
        name: where
        for name, where in used.items()
        if name not in listed_names() and name.rpartition(".")[2] not in NOT_LISTED
    }
    assert not missing, "add to docs/reference/python.rst, or use something else"


def test_the_reference_lists_only_what_exists():
    for name in listed_names():
        module, _, attribute = name.rpartition(".")
        assert getattr(importlib.import_module(module), attribute).__doc__, f"{name} has no docstring"


def test_the_reference_of_commands_has_every_command_with_its_options(monkeypatch):
    import typer

    from coad.__main__ import app

    monkeypatch.setattr(sys, "path", [str(DOCS / "_ext"), *sys.path])
    texts = importlib.import_module("command_pages").command_texts()
    registered = typer.main.get_command(app).commands
    assert set(texts) == set(registered)
    for name, command in registered.items():
        for parameter in command.params:
            options = [option for option in parameter.opts if option.startswith("-")]
            assert all(option in texts[name] for option in options), (name, options)


def test_links_of_built_pages_that_lead_nowhere_are_named(tmp_path):
    troubles = runpy.run_path(str(DOCS / "check_links.py"))["troubles"]
    (tmp_path / "there.html").write_text('<p id="place">')
    (tmp_path / "page.html").write_text(
        '<a href="there.html#place"></a><a href="https://example.org"></a><a href="gone.html"></a>'
        '<a href="there.html#nowhere"></a><script src="https://example.org/x.js"></script>'
    )
    assert troubles(tmp_path) == [
        "page.html: there is no gone.html",
        "page.html: there is no place there.html#nowhere",
        "page.html loads https://example.org/x.js from a network",
    ]
    assert coad.__version__  # the package that the pages speak of
