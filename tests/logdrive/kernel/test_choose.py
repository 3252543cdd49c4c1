"""Compiled loops are used if they are there and whole; else those in Python are."""

from inspect import isfunction
from types import ModuleType

import pytest

from logdrive.kernel import choose, iggy_loops, iggy_plain, loops, plain, s2_loops, s2_plain
from logdrive.kernel.choose import compiled_or


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A compiled module with the loops `one` and `other`, and no wish for those in Python."""
    module = ModuleType("logdrive.kernel._loops")
    module.__dict__.update(one=len, other=len)
    monkeypatch.delenv("LOGDRIVE_LOOPS", raising=False)
    monkeypatch.setattr(choose, "import_module", {module.__name__: module}.__getitem__)
    return module


def test_the_compiled_loops_are_taken(compiled: ModuleType) -> None:
    assert compiled_or(plain, "_loops", "one", "other") is compiled


def test_loops_of_an_earlier_version_are_left(compiled: ModuleType) -> None:
    assert compiled_or(plain, "_loops", "one", "newer") is plain


def test_without_a_compiler_the_loops_are_in_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LOGDRIVE_LOOPS", raising=False)
    assert compiled_or(plain, "_never_built", "cut_events") is plain


def test_those_in_python_are_taken_on_request(
    compiled: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOGDRIVE_LOOPS", "plain")
    assert compiled_or(plain, "_loops", "one") is plain


@pytest.mark.parametrize(
    ("module", "python"), [(loops, plain), (s2_loops, s2_plain), (iggy_loops, iggy_plain)]
)
def test_each_loop_is_one_of_the_module_that_was_chosen(
    module: ModuleType, python: ModuleType
) -> None:
    names = [name for name in vars(module) if isfunction(getattr(python, name, None))]
    assert len(names) >= 2
    assert all(getattr(module, name) is getattr(module.chosen, name) for name in names)
    assert module.COMPILED is (module.chosen is not python)
