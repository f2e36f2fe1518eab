"""Records to a web address of your own, as a JSON list."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

from coad.live.outputs.http import check_address, send_json
from coad.live.outputs.records import as_json, chosen
from coad.live.protocols import Record

__all__ = ["Webhook"]


@dataclass(frozen=True)
class WebhookSettings:
    """Keys of ``[[output]]`` with ``kind = "webhook"``."""

    url: str
    kinds: list[str] = field(default_factory=lambda: ["alarm"])
    timeout_s: float = 5.0
    tries: int = 3
    token_file: str = ""


class Webhook:
    """POSTs the records; the same records come again until the address has answered with success."""

    Settings: ClassVar[type] = WebhookSettings
    name = "webhook"

    def __init__(self, settings: WebhookSettings) -> None:
        check_address(settings.url)
        self.settings = settings

    def write(self, records: Sequence[Record]) -> None:
        """Send the records of the chosen kinds, if there are any."""
        lines = [json.loads(as_json(one)) for one in chosen(records, self.settings.kinds)]
        if lines:
            keys = self.settings
            send_json(keys.url, lines, timeout_s=keys.timeout_s, tries=keys.tries, token_file=keys.token_file)

    def close(self) -> None:
        """Nothing stays open."""
