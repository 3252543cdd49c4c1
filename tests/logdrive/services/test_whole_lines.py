"""Lines are put together: none has another source's text in it, no byte is added or lost."""

from hypothesis import given
from hypothesis import strategies as st

from logdrive.services.whole_lines import WholeLines


class Printed:
    """What is printed of the texts that come."""

    def __init__(self, *texts: tuple[str, bytes], limit: int = 1 << 20) -> None:
        self.cut: list[str] = []
        self.lines = WholeLines(self.cut.append, limit=limit)
        self.most = 0
        self.out: list[bytes] = []
        received = 0
        for source, text in texts:
            received += len(text)
            self.out += self.lines.receive_text(source, text)
            self.most = max(self.most, received - len(b"".join(self.out)))

    def ended(self) -> bytes:
        return b"".join([*self.out, *self.lines.take_rest()])


def test_three_parts_of_a_line_among_another_sources_lines() -> None:
    printed = Printed(
        ("a", b"before\nL"), ("b", b"1\n2"), ("a", b"L"), ("b", b"2\n"), ("a", b"L\nafter\n")
    )
    assert printed.out == [b"before\n", b"1\n", b"2", b"2\n", b"L", b"L", b"L\nafter\n"]
    assert printed.ended() == b"before\n1\n22\nLLL\nafter\n"
    assert printed.lines.take_rest() == []


def test_what_is_never_finished_comes_last__what_began_first_before_the_others() -> None:
    printed = Printed(("a", b"1"), ("b", b"2"), ("c", b"x\n3"), ("a", b"\n4"), ("b", b"2"))
    assert printed.ended() == b"x\n1\n" + b"22" + b"3" + b"4"
    assert not printed.cut


def test_beyond_the_limit_the_line_that_began_first_is_given_up_and_its_source_named_once() -> None:
    texts = [("a", b"a" * 400), ("b", b"b" * 400), ("a", b"a" * 400), ("c", b"c\n")]
    printed = Printed(*texts, limit=2000 - 256)
    assert (printed.out, printed.cut) == ([b"a" * 400] * 2 + [b"c\n"], ["a"])
    assert printed.ended() == b"a" * 800 + b"c\n" + b"b" * 400
    printed = Printed(*texts * 3, limit=500)
    assert sorted(printed.cut) == ["a", "b"], "named once each"


def test_many_short_parts_are_bounded_by_what_their_objects_take() -> None:
    printed = Printed(*((f"source {number}", b"x") for number in range(1000)), limit=25_700)
    assert printed.most == 100
    assert len(printed.cut) == 900


TEXTS = st.lists(st.tuples(st.sampled_from("abc"), st.text("xy\n", max_size=6)), max_size=30)


@given(TEXTS, st.sampled_from([0, 600, 1 << 20]))
def test_each_sources_bytes_stay_in_order_and_only_a_limit_cuts_lines(
    texts: list[tuple[str, str]], limit: int
) -> None:
    marked = [(source, text.replace("x", source).encode()) for source, text in texts]
    printed = Printed(*marked, limit=limit)
    out = b"".join(printed.out)
    whole = printed.ended()
    sent = {source: b"".join(text for name, text in marked if name == source) for source in "abc"}
    assert len(whole) == sum(map(len, sent.values()))
    for source, text in sent.items():
        letter = source.encode()
        assert whole.count(letter) == text.count(letter)
    if not printed.cut:
        assert out == b"" or out.endswith(b"\n")
        ended = [text[: text.rfind(b"\n") + 1] for text in sent.values()]
        expected = [line for text in ended for line in text.splitlines(keepends=True)]
        assert sorted(out.splitlines(keepends=True)) == sorted(expected)
