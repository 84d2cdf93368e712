"""Every command a page shows is run by a named test or by .ci/run, or says why it is not."""

from __future__ import annotations

import ast
import re
import subprocess
from collections import Counter
from collections.abc import Iterator

import pytest

from tests.house.sources import ROOT, functions, parsed
from tests.support.pages import Block, PageFault, blocks, documented, pages

LINK = re.compile(r"\[[^\]]*\]\((?!https?:|mailto:|#)([^)\s#]+)(?:#[^)]*)?\)")


def faults(page: str, text: str) -> Iterator[str]:
    """What is wrong with a page's blocks."""
    names: Counter[str] = Counter()
    for block in blocks(page, text):
        here = f"{page}:{block.line}"
        if not block.language:
            yield f"{here}: name the block's language (text, if it is none)"
        if block.name is not None:
            names[block.name] += 1
        if block.place is not None:
            yield from (f"{here}: {fault}" for fault in _unrun(block))
        elif block.runnable and block.reason is None:
            yield f"{here}: say above it what runs this, or why nothing does"
        elif block.reason is not None and len(block.reason.split()) < 3:
            yield f"{here}: '{block.reason}' is no reason"
    yield from (f"{page}: the name {name} stands twice" for name, n in names.items() if n > 1)


def _unrun(block: Block) -> Iterator[str]:
    assert block.place is not None
    path, _, test = block.place.partition("::")
    if not (ROOT / path).is_file():
        yield f"{path} does not exist"
    elif not test:
        if path != ".ci/run":
            yield f"name the test in {path}"
        elif ci_command() != block.text:
            yield ".ci/run runs another command"
    else:
        source = parsed(path, (ROOT / path).read_text(encoding="utf-8"))
        found = [node for name, node in functions(source) if name == test]
        if not found:
            yield f"{path} has no {test}"
        elif not _takes(found[0], block):
            yield f'{test} never takes documented("{block.page}", "{block.name}")'


def _takes(test: ast.AST, block: Block) -> bool:
    for node in ast.walk(test):
        match node:
            case ast.Call(
                func=ast.Name(id="documented"),
                args=[ast.Constant(value=page), ast.Constant(value=name)],
            ) if (page, name) == (block.page, block.name):
                return True
            case _:
                pass
    return False


def ci_command() -> str:
    """The command that .ci/run would run, as it extracts it from the README itself."""
    ended = subprocess.run(
        ["bash", str(ROOT / ".ci" / "run"), "--print"],
        capture_output=True,
        text=True,
        check=True,
    )
    return ended.stdout.removesuffix("\n")


@pytest.mark.parametrize("page", pages())
def test_every_block_of_a_page_is_run_or_says_why_not(page: str) -> None:
    found = list(faults(page, (ROOT / page).read_text(encoding="utf-8")))
    assert not found, "\n".join(found)


@pytest.mark.parametrize("page", pages())
def test_every_link_of_a_page_leads_to_a_file(page: str) -> None:
    here = (ROOT / page).parent
    text = (ROOT / page).read_text(encoding="utf-8")
    gone = [target for target in LINK.findall(text) if not (here / target).exists()]
    assert not gone, f"{page} links to {gone}"


def test_ci_runs_the_readmes_own_test_command() -> None:
    assert ci_command() == documented("README.md", "tests")


def test_both_readme_commands_are_one_line_each() -> None:
    for name in ("demo", "tests"):
        command = documented("README.md", name)
        assert "\n" not in command
        assert command.startswith("python3 -m venv .venv && ")


FENCE = "`" * 3


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f"{FENCE}\nls\n{FENCE}", "name the block's language"),
        (f"{FENCE}sh\nls\n{FENCE}", "say above it what runs this"),
        (f"<!-- not run: because -->\n{FENCE}sh\nls\n{FENCE}", "is no reason"),
        (f"<!-- run by: tests/gone.py::test_x as a -->\n{FENCE}sh\nls\n{FENCE}", "does not exist"),
        (
            (
                "<!-- run by: tests/house/test_pages_commands_are_run.py::test_gone as a -->\n"
                f"{FENCE}sh\nls\n{FENCE}"
            ),
            "has no test_gone",
        ),
        (
            (
                "<!-- run by: tests/house/test_pages_commands_are_run.py"
                "::test_both_readme_commands_are_one_line_each as a -->\n"
                f"{FENCE}sh\nls\n{FENCE}"
            ),
            "never takes documented",
        ),
        (f"<!-- run by: .ci/run as a -->\n{FENCE}sh\nls\n{FENCE}", "runs another command"),
    ],
)
def test_a_block_that_nothing_runs_is_found(text: str, said: str) -> None:
    found = list(faults("docs/x.md", text))
    assert any(said in fault for fault in found), found


def test_a_block_that_is_never_closed_is_found() -> None:
    with pytest.raises(PageFault, match="never closed"):
        list(blocks("docs/x.md", f"{FENCE}sh\nls\n"))


def test_a_block_inside_a_list_loses_its_indent() -> None:
    text = f"- x\n\n  {FENCE}sh\n  ls\n    -l\n  {FENCE}\n"
    assert [block.text for block in blocks("docs/x.md", text)] == ["ls\n  -l"]
