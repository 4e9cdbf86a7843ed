"""Names as people type them."""

import pytest

from autocl.errors import DataError, InputError
from autocl.names import guess, match, resolve

KNOWN = ["split-class", "split_domain", "quick"]


def test_an_exact_name_goes_before_one_that_is_nearly_the_same() -> None:
    assert match("a_b", ["a-b", "a_b"]) == "a_b"
    assert match("SPLIT-DOMAIN", KNOWN) == "split_domain"
    assert match("split", KNOWN) is None


def test_only_what_is_near_is_guessed() -> None:
    assert "'split-class'" in guess("split_clas", KNOWN)
    assert guess("everyday", KNOWN) == ""


def test_the_error_says_what_there_is() -> None:
    with pytest.raises(InputError, match="no recipe 'x': choose one of split-class, split_domain, quick"):
        resolve("x", KNOWN, "recipe")
    with pytest.raises(DataError, match="or a folder"):
        resolve("x", KNOWN, "set", hint="; or a folder", error=DataError)
