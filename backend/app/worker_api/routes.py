"""Endpoints that workers call: see `gristmill.protocol`."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query, Request, Response
from starlette.requests import ClientDisconnect
from starlette.responses import FileResponse

from backend.app.auth.actors import WorkerCredentialToken, WorkerToken
from backend.app.clock import Now
from backend.app.problems import Malformed
from backend.app.routing import PROBLEM_RESPONSE, operation_id
from backend.app.services import TheServices
from backend.app.worker_api import files, polling, registration, reports, schemas

#: Bodies are not read strictly: a NUL in a log is no reason to refuse the batch it is in.
router = APIRouter(
    tags=["worker"], responses=PROBLEM_RESPONSE, generate_unique_id_function=operation_id
)

AttemptId = Annotated[str, Path(max_length=80, pattern=r"^[0-9a-f-]{36}\.\d{1,9}\.\d{1,9}$")]
FileName = Annotated[str, Path(max_length=200)]


@router.post("/worker/register")
async def register_worker(
    body: schemas.Register, credential: WorkerCredentialToken, services: TheServices, now: Now
) -> schemas.Registered:
    """Take a worker in, by its credential; an older process of the same name is fenced."""
    async with services.background() as session:
        return await registration.register(session, services, credential, body, now)


@router.post("/worker/heartbeat")
async def send_heartbeat(
    body: schemas.Heartbeat, worker: WorkerToken, services: TheServices, now: Now
) -> schemas.HeartbeatReply:
    """Hear that a worker lives; renew its token; say what to stop."""
    async with services.background() as session:
        return await registration.beat(session, services, worker, body, now)


@router.post("/worker/poll")
async def poll_for_work(
    body: schemas.Poll, worker: WorkerToken, services: TheServices
) -> schemas.PollReply:
    """Give a worker something to do, as soon as there is something."""
    return await polling.poll(services, worker, body)


@router.post("/worker/reports")
async def send_reports(
    body: schemas.Reports, worker: WorkerToken, services: TheServices
) -> schemas.ReportsReply:
    """Take reports, in order, and say which were taken."""
    async with services.background() as session:
        await registration.in_force(session, services, worker, body.session)
    services.scheduler.heard(str(worker.id))
    answers = await reports.take(services, worker.id, body.reports)
    running = {report.attempt for report in body.reports if report.kind != "finished"}
    cancel = services.scheduler.cancels(str(worker.id), running)
    return schemas.ReportsReply(answers=answers, cancel=cancel)


@router.get("/worker/attempts/{attempt}/inputs/{number}", response_class=FileResponse)
async def download_input(
    attempt: AttemptId,
    number: Annotated[int, Path(ge=0, le=1_000_000)],
    worker: WorkerToken,
    services: TheServices,
) -> FileResponse:
    """Give a file that an attempt reads; `Range` goes on where a download broke off."""
    files.leased(services, worker, attempt)
    async with services.background() as session:
        path, sha256 = await files.input_path(session, services, attempt, number)
    headers = {"ETag": f'"{sha256}"'}
    return FileResponse(path, media_type="application/vnd.apache.arrow.file", headers=headers)


@router.head("/worker/attempts/{attempt}/outputs/{file}", status_code=204)
async def get_upload_offset(
    attempt: AttemptId, file: FileName, worker: WorkerToken, services: TheServices
) -> Response:
    """Say, in `Upload-Offset`, how many bytes of an output have arrived."""
    files.leased(services, worker, attempt)
    have = files.received(services.cache, attempt, file)
    return Response(status_code=204, headers={"Upload-Offset": str(have)})


@router.put("/worker/attempts/{attempt}/outputs/{file}", status_code=204)
async def upload_output(
    attempt: AttemptId,
    file: FileName,
    request: Request,
    worker: WorkerToken,
    services: TheServices,
    offset: Annotated[int, Query(ge=0, lt=2**62)],
    size: Annotated[int, Query(ge=0, lt=2**62)],
    sha256: Annotated[str, Query(pattern=r"^[0-9a-f]{64}$")],
) -> Response:
    """Append the body to an output at `offset`; the whole is checked against `sha256`."""
    files.leased(services, worker, attempt)
    try:
        have = await files.receive(
            services, attempt, file, request.stream(), offset=offset, size=size, sha256=sha256
        )
    except ClientDisconnect:
        raise Malformed("the upload broke off; go on from Upload-Offset") from None
    return Response(status_code=204, headers={"Upload-Offset": str(have)})
