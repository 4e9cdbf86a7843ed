"""Tab completion: what a shell offers where, and that it is what the commands really take."""

import re
import shlex
import shutil
import subprocess
from collections.abc import Callable

import pytest

from autocl import zoo
from autocl.cli import COMMANDS, main
from autocl.completion import places, script
from autocl.data.catalog import CATALOG
from autocl.recipes import RECIPES

BASH = shutil.which("bash")


@pytest.fixture(scope="module")
def pressed() -> Callable[[str], list[str]]:
    """What bash offers after a line; the last word is the one under the cursor."""
    if BASH is None:
        # The script can only be tried by the shell it is for; the tables are tested without it below.
        pytest.skip("bash is not installed")
    text = script("bash")

    def offers(line: str) -> list[str]:
        words = line.split(" ")
        press = f"COMP_WORDS=({shlex.join(words)}); COMP_CWORD={len(words) - 1}; _autocl"
        command = f'{text}\n{press}\nprintf "%s\\n" "${{COMPREPLY[@]}}"'
        assert BASH is not None
        done = subprocess.run([BASH, "--norc", "-eu"], input=command, capture_output=True, text=True)
        assert done.stderr == ""
        return done.stdout.split()

    return offers


def test_commands_and_words_behind_them(pressed: Callable[[str], list[str]]) -> None:
    assert pressed("autocl ") == [*COMMANDS, "--debug", "--version", "--help"]
    assert pressed("autocl d") == ["demo", "data"]
    assert pressed("autocl --debug data s") == ["show"]
    assert set(pressed("autocl data show ")) >= set(CATALOG)
    assert set(pressed("autocl train ")) >= set(RECIPES)
    assert pressed("autocl zoo s") == [name for name in zoo.names() if name.startswith("s")]
    assert pressed("autocl completion z") == ["zsh"]


def test_options_and_their_values(pressed: Callable[[str], list[str]]) -> None:
    assert pressed("autocl demo --s") == ["--shots"]
    assert pressed("autocl train quick --streams.sc") == ["--streams.scenario"]
    assert pressed("autocl train quick --steps 3 --objective.no") == ["--objective.no-acl"]
    assert pressed("autocl train quick --streams.scenario ") == ["domain", "class"]
    assert pressed("autocl bench split-mnist --method ew") == ["ewc"]
    assert pressed("autocl bench --diet d") == ["demos"]


def test_where_anything_can_stand_bash_completes_files(pressed: Callable[[str], list[str]]) -> None:
    assert pressed("autocl bench split-mnist --out ") == []
    assert "complete -o default" in script("bash")


@pytest.mark.parametrize(
    "line",
    ["bench", "eval", "data list", "data get", "data check", "data show", *(f"train {r}" for r in RECIPES)],
)
def test_options_are_those_of_the_help(
    line: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit):
        main([*line.split(), "--help"])
    rows = [row.strip("│ ") for row in capsys.readouterr().out.splitlines()]
    rows = [row for row in rows if row.startswith(("-h, --", "--"))]
    shown = {option for row in rows for option in re.findall(r"--[a-z][\w.-]*", row.split("  ")[0])}
    offered = set(places()[line].options)
    assert shown
    assert offered - {"--out", "--device", "--dry-run"} == shown - {"--out"}


def test_demo_options_are_those_of_its_help(capsys: pytest.CaptureFixture[str]) -> None:
    main(["demo", "--help"])
    shown = set(re.findall(r"^  (--\w+)", capsys.readouterr().out, re.MULTILINE))
    assert shown | {"--no-train", "--help"} == set(places()["demo"].options)


def test_every_command_has_a_place() -> None:
    assert set(COMMANDS) <= set(places())


def test_zsh_offers_the_same_words() -> None:
    zsh = shutil.which("zsh")
    if zsh is None:
        # As for bash: only zsh can run its script.
        pytest.skip("zsh is not installed")
    # Outside its line editor zsh has no completion functions: these say what they were given.
    system = 'compdef() {}; compadd() { shift; print -l -- "$@" }; _files() { print files }'
    for line, offered in (
        ("autocl completion ", ["bash", "zsh", "--help"]),
        ("autocl train quick --streams.scenario ", ["domain", "class"]),
        ("autocl bench split-mnist --out ", ["files"]),
    ):
        words = line.split(" ")
        press = f"words=({shlex.join(words)}); CURRENT={len(words)}; _autocl"
        command = f"{system}\n{script('zsh')}\n{press}"
        done = subprocess.run([zsh, "-f"], input=command, capture_output=True, text=True)
        assert (done.stdout.split(), done.stderr) == (offered, "")


def test_other_shells_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["completion", "fish"])
    assert end.value.code == 2
    assert "bash or zsh" in capsys.readouterr().err
    main(["completion", "--help"])
    assert "completion bash" in capsys.readouterr().out
