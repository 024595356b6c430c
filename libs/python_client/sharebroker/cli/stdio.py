"""Handling of closed standard streams."""

from __future__ import annotations

import os
import sys
from typing import Final

_STREAMS: Final = (("stdin", "r"), ("stdout", "w"), ("stderr", "w"))


def fill() -> None:
    """Opens /dev/null for each standard stream that is closed.

    Otherwise the next file or socket would get its descriptor: libuv aborts when it closes such a socket, and
    output would be sent to its peer.
    """
    for number, (name, mode) in enumerate(_STREAMS):
        try:
            os.fstat(number)
        except OSError:
            os.dup2(null := os.open(os.devnull, os.O_RDWR), number)
            if null != number:
                os.close(null)
            os.set_inheritable(number, True)
            setattr(sys, name, open(number, mode, encoding="utf-8", closefd=False))  # noqa: SIM115 - stays open
