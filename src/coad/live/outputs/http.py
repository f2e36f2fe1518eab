"""Sending JSON to an address: with a time-out, a few tries, and an error that says what the other side said."""

from __future__ import annotations

import http.client
import json
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from coad.exceptions import InputError
from coad.live.protocols import OutputError

__all__ = ["check_address", "send_json"]

_FIRST_PAUSE = 0.2  # seconds; doubled after each try


def check_address(url: str) -> str:
    """The address, if it is one of http or https.

    >>> check_address("file:///etc/passwd")
    Traceback (most recent call last):
    ...
    coad.exceptions.InputError: url 'file:///etc/passwd' must begin with http:// or https://
    """
    if not url.startswith(("http://", "https://")):
        raise InputError(f"url {url!r} must begin with http:// or https://")
    return url


def send_json(url: str, value: Any, *, timeout_s: float, tries: int, token_file: str = "") -> None:
    """POST a value as JSON.

    Parameters
    ----------
    url
        Address of http or https.
    value
        What JSON can hold.
    timeout_s
        For each try.
    tries
        How often to try; refusals (400 to 499, but not 408 and 429) are not tried again.
    token_file
        A file with a token for ``Authorization: Bearer``.

    Raises
    ------
    OutputError
        What the other side said last.
    """
    headers = {"Content-Type": "application/json", "User-Agent": "coad"}
    if token_file:
        headers["Authorization"] = f"Bearer {Path(token_file).read_text().strip()}"
    body = json.dumps(value, allow_nan=False).encode()
    said, pause = "", _FIRST_PAUSE
    for number in range(tries):
        if number:
            time.sleep(pause)
            pause *= 2
        try:
            with urllib.request.urlopen(
                urllib.request.Request(url, body, headers), timeout=timeout_s
            ) as answer:
                answer.read(2**16)
            return
        except urllib.error.HTTPError as error:
            said = f"{error.code} {error.reason}: {error.read(200).decode(errors='replace').strip()}"
            if 400 <= error.code < 500 and error.code not in (408, 429):
                break
        except (OSError, http.client.HTTPException) as error:
            said = str(getattr(error, "reason", "") or error)
    raise OutputError(f"{url} did not take the records: {said}")
