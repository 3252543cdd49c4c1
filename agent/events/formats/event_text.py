"""Gives an event another message than its line, which it keeps as `original`."""

from agent.events.event import Event


def replace_message(event: Event, message: str) -> None:
    """Make *message*, a part of its line, the message of *event*."""
    if event.original is None:
        event.original = event.message.encode(event.encoding or "utf-8")
        event.encoding = ""
    event.message = message
