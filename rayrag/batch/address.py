"""Whether anything listens at an address: Ray itself tries for minutes, or says that a token is missing."""

import re
import socket


def check_listening(address: str) -> None:
    """ConnectionError when nothing listens at `host:port` or `http://host:port`; addresses of other forms pass."""
    found = re.fullmatch(r"(?:https?://)?\[?([^/]+?)\]?:(\d+)/?", address)
    if found is not None:
        try:
            socket.create_connection((found[1], int(found[2])), timeout=5).close()
        except (OSError, OverflowError) as error:
            raise ConnectionError(f"nothing listens at {address}: {error}") from error
