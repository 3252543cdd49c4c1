"""Numbers in groups of seven bits, as protobuf and Thrift's compact protocol have them."""


def encode_varint(number: int) -> bytes:
    """Return *number*, which is not negative: the lowest group first, the top bit says "more"."""
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)
