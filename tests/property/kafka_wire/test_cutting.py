"""Frames do not depend on how their bytes are split."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sharebroker_server.kafka_wire.decoder import BadMessage
from sharebroker_server.kafka_wire.frames import FrameSplitter

MOST = 300


@given(
    wanted=st.lists(st.binary(min_size=1, max_size=MOST), max_size=5),
    lie=st.none() | st.sampled_from([0, -1, MOST + 1, 2**31 - 1]),
    data=st.data(),
)
def test_frames_are_split_alike_from_any_pieces(
    wanted: list[bytes], lie: int | None, data: st.DataObject
) -> None:
    stream = b"".join(len(frame).to_bytes(4) + frame for frame in wanted)
    if lie is not None:
        stream += lie.to_bytes(4, signed=True)
    cuts = sorted(data.draw(st.sets(st.integers(0, len(stream)), max_size=12)))
    pieces = [stream[a:b] for a, b in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    cutter, frames, lied = FrameSplitter(MOST), list[bytes](), False
    for piece in pieces:
        try:
            cutter.split(piece, frames)
        except BadMessage:
            lied = True
    assert frames == wanted
    assert lied == (lie is not None)
    assert lied or not cutter.begun
