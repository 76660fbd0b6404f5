"""Files on an S3-compatible server on the loopback address: read like files here; credentials are never printed."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import latentfit
from latentfit import LatentClass
from latentfit.cli.main import main
from latentfit.core.errors import DataError

boto3 = pytest.importorskip("boto3", reason="moto is not installed: pip install 'latentfit[test]'")
pytest.importorskip("moto", reason="moto is not installed: pip install 'latentfit[test]'")
SECRET = "a-very-secret-word"


@pytest.fixture(scope="module")
def bucket():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = Path(sys.executable).with_name("moto_server")
    process = subprocess.Popen(
        [str(server), "-H", "127.0.0.1", "-p", str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    patch = pytest.MonkeyPatch()
    for name, value in {
        "AWS_ACCESS_KEY_ID": "somebody",
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
        "AWS_EC2_METADATA_DISABLED": "true",
    }.items():
        patch.setenv(name, value)
    try:
        for _ in range(100):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.2)
        store = boto3.client("s3")
        store.create_bucket(Bucket="survey-data")
        rng = np.random.default_rng(0)
        hidden = rng.integers(0, 2, 400)
        rows = np.where(rng.random((400, 4)) < 0.8, hidden[:, None], 1 - hidden[:, None])
        for at in range(2):
            lines = ["a,b,c,d", *(",".join(map(str, row)) for row in rows[at::2])]
            body = "\n".join(lines).encode() + b"\n"
            for name in (f"wave/part{at}.csv", f"odd wave/100% part#{at}?.csv"):
                store.put_object(Bucket="survey-data", Key=name, Body=body)
        yield rows
    finally:
        patch.undo()
        process.kill()
        process.wait()


@pytest.mark.slow
def test_a_store_is_read_like_a_folder(bucket, tmp_path, capsys):
    for address in ("s3://survey-data/wave", "s3://survey-data/wave/part*.csv"):
        scan = latentfit.scan(address)
        assert len(scan.paths) == 2
        model = LatentClass(2).fit(scan)
        assert sum(batch.num_rows for batch in scan.batches()) == 400
        assert sorted(np.round(model.weights_, 1)) == [0.5, 0.5]
    assert scan.fingerprint() == latentfit.scan(address).fingerprint()
    out = tmp_path / "out"
    assert main(["table", "s3://survey-data/wave", "--components", "2", "--out", str(out)]) == 0
    assert len((out / "classes.csv").read_text().splitlines()) == 401
    said = capsys.readouterr()
    everything = said.out + said.err + "".join(path.read_text(errors="replace") for path in out.iterdir())
    assert SECRET not in everything


@pytest.mark.slow
def test_names_on_a_store_may_hold_anything(bucket):
    for address in ("s3://survey-data/odd%20wave", "s3://survey-data/odd%20wave/*.csv"):
        assert sum(batch.num_rows for batch in latentfit.scan(address).batches()) == 400


@pytest.mark.slow
def test_what_is_not_there_gets_one_sentence(bucket):
    with pytest.raises(FileNotFoundError, match="no file matches s3://survey-data/none"):
        latentfit.scan("s3://survey-data/none*.csv")
    with pytest.raises(FileNotFoundError, match="s3://another-bucket/x does not exist"):
        latentfit.scan("s3://another-bucket/x")
    with pytest.raises(DataError, match="is not a readable address"):
        latentfit.scan("gopher://old/times.csv")
