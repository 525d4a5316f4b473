"""Endpoints of things declared: the same seven for each kind, named after it."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query, Request, Response
from sqlmodel import col

from backend.app import pages
from backend.app.auth.actors import CurrentUser
from backend.app.clock import Now
from backend.app.db.sessions import ReadSession, WriteSession
from backend.app.db.tables import DatabaseFile
from backend.app.declarations import files, queries, service
from backend.app.declarations.kinds import DATABASE, OWNED, Kind
from backend.app.declarations.schemas import (
    DatabaseFileView,
    Declared,
    DeclaredChange,
    DeclaredSummary,
    NewDeclared,
    Sharing,
)
from backend.app.etags import IfMatch, tagged
from backend.app.pages import Page, Part
from backend.app.routing import api_router
from backend.app.services import TheServices
from gristmill.formats.names import LARGEST_VERSION

Owner = Annotated[str, Path(max_length=64)]
Name = Annotated[str, Path(max_length=100)]
Version = Annotated[int, Path(ge=1, le=LARGEST_VERSION)]
OwnerFilter = Annotated[str | None, Query(max_length=64)]
NameFilter = Annotated[str | None, Query(max_length=100)]
Search = Annotated[
    str | None, Query(max_length=100, description="text in name, owner or description")
]


def _lists(router: APIRouter, kind: Kind) -> None:
    """Add list and create."""

    @router.get(
        f"/{kind.plural}",
        name=f"list_{kind.plural}",
        description=f"List the {kind.words} versions that you may see.",
    )
    async def list_declared(
        actor: CurrentUser,
        session: ReadSession,
        part: Part,
        owner: OwnerFilter = None,
        name: NameFilter = None,
        q: Search = None,
    ) -> Page[DeclaredSummary]:
        query = queries.summaries(kind, actor, owner, name, q)
        columns = queries.order(kind)
        return await pages.listed(
            session, query, columns, part, lambda row: service.summary(kind, row)
        )

    @router.post(
        f"/{kind.plural}",
        status_code=201,
        name=f"create_{kind.name}",
        description=f"Declare a version of a {kind.words}.",
    )
    async def create_declared(
        body: NewDeclared, actor: CurrentUser, session: WriteSession, now: Now, response: Response
    ) -> Declared:
        return tagged(response, await service.create(session, kind, actor, body, now))


def _versions(router: APIRouter, kind: Kind) -> None:
    """Add get, update, delete and share, under `owner/name/version`."""
    path = f"/{kind.plural}/{{owner}}/{{name}}/{{version}}"

    @router.get(path, name=f"get_{kind.name}", description=f"Show a {kind.words}, whole.")
    async def get_declared(
        owner: Owner,
        name: Name,
        version: Version,
        actor: CurrentUser,
        session: ReadSession,
        response: Response,
    ) -> Declared:
        row = await service.load(session, kind, actor, owner, name, version)
        return tagged(response, await service.whole(session, kind, actor, row))

    @router.patch(
        path,
        name=f"update_{kind.name}",
        description=f"Change a {kind.words} that no experiment has used.",
    )
    async def update_declared(
        owner: Owner,
        name: Name,
        version: Version,
        body: DeclaredChange,
        actor: CurrentUser,
        session: WriteSession,
        response: Response,
        if_match: IfMatch = None,
    ) -> Declared:
        return tagged(
            response,
            await service.update(session, kind, actor, owner, name, version, body, if_match),
        )

    @router.delete(
        path,
        status_code=204,
        name=f"delete_{kind.name}",
        description=f"Delete a {kind.words} that nothing names.",
    )
    async def delete_declared(
        owner: Owner,
        name: Name,
        version: Version,
        actor: CurrentUser,
        session: WriteSession,
        now: Now,
        if_match: IfMatch = None,
    ) -> None:
        await service.delete(session, kind, actor, owner, name, version, if_match, now)

    @router.put(
        f"{path}/sharing",
        name=f"share_{kind.name}",
        description=f"Say who may see a {kind.words}.",
    )
    async def share_declared(
        owner: Owner,
        name: Name,
        version: Version,
        body: Sharing,
        actor: CurrentUser,
        session: WriteSession,
        now: Now,
        response: Response,
        if_match: IfMatch = None,
    ) -> Declared:
        return tagged(
            response,
            await service.set_sharing(
                session, kind, actor, owner, name, version, body, if_match, now
            ),
        )


def _router(kind: Kind) -> APIRouter:
    router = api_router(kind.plural)
    _lists(router, kind)
    _versions(router, kind)
    return router


routers = [_router(kind) for kind in OWNED]

# ---- databases: `name/version`, and files -------------------------------------------------

databases = api_router("databases")
_lists(databases, DATABASE)
_DATABASE = "/databases/{name}/{version}"


@databases.get(_DATABASE)
async def get_database(
    name: Name, version: Version, actor: CurrentUser, session: ReadSession, response: Response
) -> Declared:
    """Show a database, whole; its files are listed apart."""
    row = await service.load(session, DATABASE, actor, None, name, version)
    return tagged(response, await service.whole(session, DATABASE, actor, row))


@databases.patch(_DATABASE)
async def update_database(
    name: Name,
    version: Version,
    body: DeclaredChange,
    actor: CurrentUser,
    session: WriteSession,
    response: Response,
    if_match: IfMatch = None,
) -> Declared:
    """Change a database that no experiment has used."""
    return tagged(
        response,
        await service.update(session, DATABASE, actor, None, name, version, body, if_match),
    )


@databases.delete(_DATABASE, status_code=204)
async def delete_database(
    name: Name,
    version: Version,
    actor: CurrentUser,
    session: WriteSession,
    now: Now,
    if_match: IfMatch = None,
) -> None:
    """Delete a database that no experiment names."""
    await service.delete(session, DATABASE, actor, None, name, version, if_match, now)


@databases.put(f"{_DATABASE}/sharing")
async def share_database(
    name: Name,
    version: Version,
    body: Sharing,
    actor: CurrentUser,
    session: WriteSession,
    now: Now,
    response: Response,
    if_match: IfMatch = None,
) -> Declared:
    """Say who may see a database."""
    return tagged(
        response,
        await service.set_sharing(
            session, DATABASE, actor, None, name, version, body, if_match, now
        ),
    )


@databases.get(f"{_DATABASE}/files")
async def list_database_files(
    name: Name, version: Version, actor: CurrentUser, session: ReadSession, part: Part
) -> Page[DatabaseFileView]:
    """List a database's uploaded files by path."""
    row = await service.load(session, DATABASE, actor, None, name, version)
    return await pages.listed(
        session,
        queries.files(row.id),
        [col(DatabaseFile.path)],
        part,
        lambda file: DatabaseFileView.model_validate(file, from_attributes=True),
    )


@databases.put(
    f"{_DATABASE}/files/{{path:path}}",
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {
                "application/octet-stream": {"schema": {"type": "string", "format": "binary"}}
            },
        }
    },
)
async def upload_database_file(
    name: Name,
    version: Version,
    path: str,
    request: Request,
    actor: CurrentUser,
    session: WriteSession,
    services: TheServices,
    sha256: Annotated[
        str | None, Query(pattern="^[0-9a-f]{64}$", description="of the file, to be compared")
    ] = None,
) -> DatabaseFileView:
    """Upload a file of a database that no experiment has used; the body is the file."""
    return await files.upload(
        session, services, actor, name, version, path, request.stream(), sha256
    )


@databases.delete(f"{_DATABASE}/files/{{path:path}}", status_code=204)
async def delete_database_file(
    name: Name, version: Version, path: str, actor: CurrentUser, session: WriteSession
) -> None:
    """Delete a file of a database that no experiment has used."""
    await files.remove(session, actor, name, version, path)


routers.append(databases)
