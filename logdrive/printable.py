"""Text of others, such as paths, as it may go to a terminal."""


def escape_unprintable(text: str) -> str:
    """Return *text* with unprintable characters replaced by backslash escapes."""
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() else repr(character)[1:-1] for character in text
    )
