"""S2's own Python SDK against our store: all that its makers test of a server."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.interop.s2.suite import (
    Sdk,
    new_environment,
    run_suite,
    served_store,
    suite_directory,
)

pytestmark = pytest.mark.process

OLD = Sdk("0.8.0")  # the one that the tests were written for
NEW = Sdk(
    "0.13.0",
    (
        *("-p", "s2shim"),
        # they test insides of the SDK, which have changed
        *("--ignore", "tests/test_client.py", "--ignore", "tests/test_s2s_protocol.py"),
    ),
)
# what a real s2-lite passes, and what only the service has: tokens, locations, metrics
LITE = "(account or basin or stream) and not access_tokens and not locations"
MORE = "access_tokens or locations or metrics or correctness"
LITE_TESTS = 136
MORE_TESTS = 31


@pytest.fixture(scope="session")
def python_with(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Returns the Python of an environment with a version of s2-sdk, made once."""
    suite_directory()
    made: dict[str, Path] = {}

    def python(version: str) -> Path:
        if version not in made:
            directory = tmp_path_factory.mktemp("s2-sdk") / version
            made[version] = new_environment(directory, version)
        return made[version]

    return python


@pytest.mark.parametrize(
    ("sdk", "compression"),
    # both versions compress alike, so that one run of the newer is enough
    [(OLD, "none"), (OLD, "gzip"), (OLD, "zstd"), (NEW, "zstd")],
    ids=lambda value: value.version if isinstance(value, Sdk) else value,
)
def test_every_test_of_s2s_own_suite_passes(
    python_with: Callable[[str], Path], tmp_path: Path, sdk: Sdk, compression: str
) -> None:
    python = python_with(sdk.version)
    with served_store(tmp_path) as url:
        passed = run_suite(python, sdk, url, LITE, "--compression", compression)
        assert passed == LITE_TESTS


@pytest.mark.parametrize("sdk", [OLD, NEW], ids=lambda sdk: sdk.version)
def test_what_only_the_service_has_passes_too(
    python_with: Callable[[str], Path], tmp_path: Path, sdk: Sdk
) -> None:
    python = python_with(sdk.version)
    with served_store(tmp_path) as url:
        assert run_suite(python, sdk, url, MORE) == MORE_TESTS
