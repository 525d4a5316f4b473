# syntax=docker/dockerfile:1
# The server with its page; `--target worker` gives a worker with bubblewrap and the Python environment.

FROM node:20-bookworm-slim AS page
WORKDIR /page/frontend
COPY frontend/package.json frontend/package-lock.json frontend/.npmrc ./
RUN npm ci --no-audit --no-fund
COPY openapi /page/openapi
COPY frontend ./
RUN npm run build

FROM python:3.11-slim-bookworm AS build
WORKDIR /build
COPY requirements ./requirements
RUN python -m venv /opt/gristmill && /opt/gristmill/bin/pip install --no-cache-dir --require-hashes -r requirements/bootstrap.txt
COPY pyproject.toml README.md COPYING COPYING.LESSER ./
COPY packages ./packages
COPY backend ./backend
COPY alembic ./alembic
# The locked versions are constraints, so that only what the server needs is installed.
RUN grep -oE '^[A-Za-z0-9._-]+==[^ \\;]+( ;[^\\]*)?' requirements/dev.txt > /tmp/constraints.txt \
 && /opt/gristmill/bin/uv pip install --no-cache --python /opt/gristmill/bin/python --compile-bytecode --no-sources -c /tmp/constraints.txt './packages/gristmill[cli,client]' '.[server,worker]'

FROM python:3.11-slim-bookworm AS base
RUN useradd --create-home --uid 10001 gristmill
COPY --from=build /opt/gristmill /opt/gristmill
ENV PATH=/opt/gristmill/bin:$PATH PYTHONUNBUFFERED=1
USER gristmill
WORKDIR /home/gristmill

FROM base AS worker
USER root
RUN apt-get update && apt-get install -y --no-install-recommends bubblewrap && rm -rf /var/lib/apt/lists/*
COPY requirements/environment.txt /tmp/environment.txt
COPY --from=build /build/packages /tmp/packages
RUN python -m venv /opt/environment \
 && /opt/environment/bin/pip install --no-cache-dir --require-hashes -r /tmp/environment.txt \
 && /opt/environment/bin/pip install --no-cache-dir --no-deps /tmp/packages/gristmill && rm -rf /tmp/packages /tmp/environment.txt
RUN mkdir -p /var/lib/gristmill-worker && chown gristmill /var/lib/gristmill-worker
USER gristmill
ENTRYPOINT ["python", "-m", "backend.worker"]

FROM base AS server
# Where an installed server looks for its page: inside its package.
COPY --from=page /page/frontend/dist /opt/gristmill/lib/python3.11/site-packages/backend/page
ENV GRISTMILL_HOST=0.0.0.0 GRISTMILL_DATA=/var/lib/gristmill
USER root
RUN mkdir -p /var/lib/gristmill && chown gristmill /var/lib/gristmill
USER gristmill
VOLUME /var/lib/gristmill
EXPOSE 8000
HEALTHCHECK --interval=10s --timeout=3s --start-period=20s CMD ["python", "-c", "import urllib.request as u; u.urlopen('http://127.0.0.1:8000/readyz', timeout=2)"]
CMD ["python", "-m", "backend.app", "serve"]
