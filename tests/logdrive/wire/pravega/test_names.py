"""Names of transaction and transient segments, as a real Pravega makes them."""

from uuid import UUID

from logdrive.wire.pravega.names import is_transient, parent_of, transaction_name, transient_name

SEGMENT = "logs/app/0.#epoch.0"


def test_segments_beside_a_streams_own_name_their_parent() -> None:
    transaction = transaction_name(SEGMENT, UUID(int=0xAB))
    assert transaction == f"{SEGMENT}#transaction.000000000000000000000000000000ab"
    transient = transient_name(SEGMENT, UUID(int=1), UUID(int=2))
    assert transient == f"{SEGMENT}#transient.{1:032x}.{2:032x}"
    assert (parent_of(transaction), parent_of(transient)) == (SEGMENT, SEGMENT)
    assert (is_transient(transaction), is_transient(transient)) == (False, True)


def test_other_names_have_no_parent() -> None:
    for name in (
        SEGMENT,
        f"{SEGMENT}#index",
        f"{SEGMENT}#transaction.ab",
        f"#transaction.{1:032x}",
        f"{SEGMENT}#transient.{1:032x}",
    ):
        assert parent_of(name) is None
        assert not is_transient(name)
