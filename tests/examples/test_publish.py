"""Publishing a folder to the real application: in order, once, and never over what differs."""

from __future__ import annotations

import json
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI

from gristmill.client import AsyncClient, Conflict
from gristmill.prefixes import BadPrefix, read_prefix
from tests.people import BASE_URL, People

DIGITS = Path(__file__).parents[2] / "examples/digits"


@pytest.fixture
async def ann(app: FastAPI, people: People) -> AsyncIterator[AsyncClient]:
    person = await people.user("ann")
    async with AsyncClient(BASE_URL, person.token, transport=httpx.ASGITransport(app)) as client:
        yield client


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A copy of the example that tests may change."""
    return Path(shutil.copytree(DIGITS, tmp_path / "digits"))


async def test_a_folder_is_published_once_as_ones_own(ann: AsyncClient) -> None:
    first = await ann.publish(DIGITS)
    assert "toolchains/ann/digits/1" in first.created
    assert "databases/digits/1" in first.created
    assert len(first.created) == len(read_prefix(DIGITS).declared)
    again = await ann.publish(DIGITS)
    assert (again.created, again.updated) == ((), ())
    assert set(again.unchanged) == set(first.created)
    algorithm = await ann.call("GET", "/algorithms/ann/cells/1")
    assert algorithm["declaration"]["uses"] == {"images": "ann/images/1"}
    assert algorithm["source"] == (DIGITS / "algorithms/user/cells/1.py").read_text()


async def test_a_half_published_folder_is_completed(ann: AsyncClient, folder: Path) -> None:
    shutil.rmtree(folder / "toolchains")
    shutil.rmtree(folder / "experiments")
    await ann.publish(folder)
    assert (await ann.publish(DIGITS)).created == ("toolchains/ann/digits/1",)


async def test_what_differs_is_not_overwritten_unasked(ann: AsyncClient, folder: Path) -> None:
    await ann.publish(folder)
    source = folder / "algorithms/user/split/1.py"
    source.write_text(source.read_text() + "\n# changed\n")
    with pytest.raises(Conflict, match="ann/split/1"):
        await ann.publish(folder)
    assert (await ann.publish(folder, update=True)).updated == ("algorithms/ann/split/1",)
    assert "# changed" in (await ann.call("GET", "/algorithms/ann/split/1"))["source"]


async def test_the_files_of_a_database_are_uploaded_once(ann: AsyncClient, folder: Path) -> None:
    data = folder / "databases/digits/1/more"
    data.mkdir(parents=True)
    (data / "labels.csv").write_text("1,2\n")
    for _ in range(2):
        await ann.publish(folder)
    [source, file] = await ann.items("/databases/digits/1/files")
    assert source["path"] == "SOURCE.txt"
    assert (file["path"], file["size"]) == ("more/labels.csv", 4)


async def test_a_folder_that_is_not_one_is_refused_before_anything_is_sent(
    ann: AsyncClient, folder: Path
) -> None:
    path = folder / "algorithms/user/split/1.json"
    path.write_text(json.dumps({"a": 1})[:-1])
    with pytest.raises(BadPrefix, match=r"split/1\.json: The document is not JSON"):
        await ann.publish(folder)
    (folder / "toolchains/user/digits/one.json").write_text("{}")
    path.write_text("{}")
    with pytest.raises(BadPrefix, match="owner/name/version"):
        await ann.publish(folder)
    assert await ann.items("/dataformats", owner="ann") == []
