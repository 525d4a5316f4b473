"""The five kinds of things that people declare: one table, so that one code serves them all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from backend.app.db.tables import Algorithm, Database, DataFormat, Library, Toolchain

Row = Algorithm | Database | DataFormat | Library | Toolchain
Content = Literal["source", "files"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One kind."""

    name: str  #: as in operation ids and in the table `share`
    plural: str  #: as in paths
    words: str  #: as people say it
    table: type[Algorithm] | type[Database] | type[DataFormat] | type[Library] | type[Toolchain]
    content: Content | None = None  #: what it has besides its declaration
    owned_names: bool = True  #: `owner/name/version`; a database is `name/version`

    def ref(self, row: Row) -> str:
        """Return the reference by which others name it."""
        if self.owned_names:
            return f"{row.owner}/{row.name}/{row.version}"
        return f"{row.name}/{row.version}"


LIBRARY = Kind(name="library", plural="libraries", words="library", table=Library, content="files")
ALGORITHM = Kind(
    name="algorithm", plural="algorithms", words="algorithm", table=Algorithm, content="source"
)
DATA_FORMAT = Kind(name="dataformat", plural="dataformats", words="data format", table=DataFormat)
TOOLCHAIN = Kind(name="toolchain", plural="toolchains", words="toolchain", table=Toolchain)
DATABASE = Kind(
    name="database",
    plural="databases",
    words="database",
    table=Database,
    content="source",
    owned_names=False,
)
OWNED = (LIBRARY, ALGORITHM, DATA_FORMAT, TOOLCHAIN)
EVERY = (*OWNED, DATABASE)
