"""Damaged files of every format: a clear error or a right answer, on the command line too.

Fifty files a reader by default; LATENTFIT_DAMAGE=10000 asks for more (`tests/io/damage.py` prints counts).
"""

from __future__ import annotations

import os

import pytest

from latentfit.cli.main import main
from tests.io.damage import damaged, judge, readers, run

MANY = int(os.environ.get("LATENTFIT_DAMAGE", "50"))
ON_THE_COMMAND_LINE = 4
"""Of each reader: a fit takes longer than a reading."""
READERS = readers()


def reader(name):
    if name == "plink":
        pytest.importorskip("bed_reader", reason="bed-reader is not installed: pip install 'latentfit[genetics]'")
    return READERS[name]


@pytest.mark.parametrize("name", READERS)
def test_the_good_file_is_read(name, tmp_path):
    assert judge(reader(name), READERS[name].good, tmp_path) == "read"


@pytest.mark.parametrize("name", READERS)
def test_damaged_files_are_refused_or_read_right(name, tmp_path):
    counts, faults = run(reader(name), range(MANY), tmp_path)
    assert not faults, "\n".join(fault.what for fault in faults[:10])
    assert counts["refused"] > 0


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", READERS)
def test_no_traceback_on_the_command_line(name, tmp_path, capsys):
    one = reader(name)
    for seed in range(ON_THE_COMMAND_LINE):
        for file, data in damaged(one, seed).items():
            (tmp_path / file).write_bytes(data)
        command, *more = one.command
        code = main([command, str(tmp_path / next(iter(one.good))), *more, "--out", str(tmp_path / "o"), "--quiet"])
        said = capsys.readouterr()
        assert code in (0, 3, 4), said.err
        assert (code == 0) == (said.err == "")
        assert len(said.err.splitlines()) <= 1
