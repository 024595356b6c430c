"""The standard streams of a process that was started without some of them."""

from __future__ import annotations

import os
import sys
from typing import Final

_STREAMS: Final = (("stdin", "r"), ("stdout", "w"), ("stderr", "w"))


def fill() -> None:
    """Have each that is closed lead nowhere.

    The next file or socket would get its number otherwise: libuv aborts when it is to close one of those, and
    what is printed would go to whoever is at the other end.
    """
    for number, (name, mode) in enumerate(_STREAMS):
        try:
            os.fstat(number)
        except OSError:
            os.dup2(nowhere := os.open(os.devnull, os.O_RDWR), number)
            if nowhere != number:
                os.close(nowhere)
            os.set_inheritable(number, True)
            setattr(sys, name, open(number, mode, encoding="utf-8", closefd=False))  # noqa: SIM115 - for good
