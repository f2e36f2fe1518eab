"""Where a page listens."""

from __future__ import annotations

import errno
import socket

from coad.exceptions import InputError

__all__ = ["bound_socket"]


def bound_socket(port: int = 0, host: str = "127.0.0.1") -> socket.socket:
    """A listening socket, on the loopback address unless told otherwise; port 0 chooses a free one.

    >>> with bound_socket() as listening:
    ...     listening.getsockname()[0]
    '127.0.0.1'
    """
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
        listening.listen(128)
    except OSError as error:
        listening.close()
        if error.errno == errno.EADDRINUSE:
            raise InputError(
                f"port {port} is in use, perhaps by another page of coad; choose another --port, or leave it out"
            ) from error
        raise InputError(
            f"{host}:{port} cannot be listened on: {error.strerror}; choose another --port"
        ) from error
    return listening
