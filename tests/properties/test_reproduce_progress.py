"""Long reproductions go on where they were interrupted."""

from __future__ import annotations

from tacit.reproduce.table import Progress, Run


def test_a_piece_is_made_once_and_found_again(tmp_path):
    path, made = tmp_path / "folder" / "progress.jsonl", []

    def make(value):
        return lambda: made.append(value) or [value, True, None]

    run = Run(seed=3, progress=Progress(path))
    assert run.piece("a", make(1)) == run.piece("a", make(2)) == [1, True, None]
    assert Run(seed=3, progress=Progress(path)).piece("a", make(3)) == [1, True, None]
    assert Run(seed=4, progress=Progress(path)).piece("a", make(4)) == [4, True, None]  # another seed, another piece
    assert Run(seed=3).piece("a", make(5)) == [5, True, None]
    assert made == [1, 4, 5]


def test_a_line_cut_off_or_of_another_version_is_no_piece(tmp_path):
    path = tmp_path / "progress.jsonl"
    Progress(path).piece("a", lambda: 1)
    Progress(path).piece("b", lambda: 2)
    text = path.read_text()
    path.write_text(text[:-9])
    assert Progress(path).piece("a", lambda: 10) == 1
    assert Progress(path).piece("b", lambda: 20) == 20
    path.write_text(text.replace('"version": "', '"version": "0.'))
    assert Progress(path).piece("a", lambda: 30) == 30
