"""The journal: what was appended comes back, whatever byte its writer was killed at."""

from __future__ import annotations

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from curro.core.errors import CheckpointError
from curro.durable.journal import Journal

RECORDS = [b"", b"one", b"\0" * 20, b"four" * 9]
HEAD = 12


def written(path, records=RECORDS):
    journal = opened(path)[0]
    for record in records:
        journal.append(record)
    journal.close()
    return path.read_bytes()


def opened(path):
    journal = Journal(path)
    try:
        return journal, list(journal.replay())
    except BaseException:
        journal.close()
        raise


def kept(path):
    journal, records = opened(path)
    journal.close()
    return records


def test_records_come_back_in_order(tmp_path):
    written(tmp_path / "journal")
    journal, records = opened(tmp_path / "journal")
    assert records == RECORDS
    journal.append(b"more")
    assert journal.size == (tmp_path / "journal").stat().st_size
    journal.close()
    assert kept(tmp_path / "journal") == [*RECORDS, b"more"]


def test_cut_at_every_byte_it_keeps_all_whole_records_and_goes_on(tmp_path):
    path = tmp_path / "journal"
    whole = written(path)
    ends = [sum(HEAD + len(record) for record in RECORDS[:count]) for count in range(len(RECORDS) + 1)]
    for cut in range(len(whole) + 1):
        path.write_bytes(whole[:cut])
        journal, records = opened(path)
        count = sum(end <= cut for end in ends) - 1
        assert records == RECORDS[:count], cut
        journal.append(b"next")
        journal.close()
        assert kept(path) == [*RECORDS[:count], b"next"], cut


def test_a_changed_byte_is_damage_unless_it_is_of_the_last_record(tmp_path):
    path = tmp_path / "journal"
    whole = written(path)
    last = len(whole) - len(RECORDS[-1])
    for place in range(last):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        if place >= last - 4:  # the checksum of the last record, whose content a power cut may spoil
            assert kept(path) == RECORDS[:-1]
        else:
            with pytest.raises(CheckpointError, match="damaged at byte"):
                opened(path)
        assert len(path.read_bytes()) in (len(whole), last - HEAD)


def test_records_out_of_order_are_damage(tmp_path):
    path = tmp_path / "journal"
    written(path, [b"first", b"other"])
    whole, size = path.read_bytes(), HEAD + 5
    for content in (whole[size:], whole[size:] + whole[:size], whole[:size] + whole):
        path.write_bytes(content)
        with pytest.raises(CheckpointError, match="damaged"):
            opened(path)


@given(zeros=st.integers(1, 40))
def test_zeros_that_a_power_cut_left_are_cut_off(tmp_path_factory, zeros):
    path = tmp_path_factory.mktemp("cut") / "journal"
    whole = written(path)
    path.write_bytes(whole + bytes(zeros))
    assert kept(path) == RECORDS
    assert path.read_bytes() == whole


def test_a_hole_is_damage(tmp_path):
    """It was read as a whole: a gigabyte of it took eleven seconds and a gigabyte of memory."""
    path = tmp_path / "journal"
    written(path)
    os.truncate(path, 1 << 40)
    with pytest.raises(CheckpointError, match="damaged at byte"):
        opened(path)


def test_what_does_not_fit_the_disk_leaves_the_journal_as_it_was(tmp_path):
    path = tmp_path / "journal"
    whole = written(path)
    journal, _ = opened(path)
    file = journal._file

    class FullDisk:
        """Takes half of what it is given, then nothing."""

        room = 7
        truncate, close = file.truncate, file.close

        def write(self, data):
            if not self.room:
                raise OSError(28, "No space left on device")
            taken, self.room = file.write(data[: self.room]), 0
            return taken

    journal._file = FullDisk()
    with pytest.raises(OSError, match="No space"):
        journal.append(b"too long for the disk")
    journal._file = file
    assert path.read_bytes() == whole
    journal.append(b"fits")
    journal.close()
    assert kept(path) == [*RECORDS, b"fits"]
