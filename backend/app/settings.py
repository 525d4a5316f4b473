"""Every environment variable of the server, in one class. Nothing else reads the environment."""

from __future__ import annotations

import ipaddress
from pathlib import Path

from pydantic import AliasChoices, Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict

MIB = 1024 * 1024


class Settings(BaseSettings):
    """Read from GRISTMILL_… (and DATABASE_URL); durations in seconds, sizes in bytes."""

    model_config = SettingsConfigDict(env_prefix="GRISTMILL_", extra="ignore", frozen=True)

    data: Path = Path(".gristmill")  #: everything that the server keeps outside the database
    database_url: SecretStr | None = Field(
        default=None, validation_alias=AliasChoices("GRISTMILL_DATABASE_URL", "DATABASE_URL")
    )  #: without it, an embedded PostgreSQL in the data folder

    host: str = "127.0.0.1"
    port: int = Field(default=8000, ge=0, le=65535)
    allowed_hosts: tuple[str, ...] = ("localhost", "127.0.0.1", "[::1]")  #: of the Host header
    allowed_origins: tuple[str, ...] = ()  #: browsers' origins besides the server's own
    secure_cookies: bool = False  #: True behind TLS: `__Host-` cookie with Secure
    metrics_token: SecretStr | None = None  #: bearer for /metrics; without it only this machine

    body_limit: int = Field(default=2 * MIB, gt=0)  #: of every request but uploads
    upload_limit: int = Field(default=100 * MIB, gt=0)  #: of one uploaded file
    database_files_limit: int = Field(default=10_000, gt=0)  #: files of one database
    worker_body_limit: int = Field(default=16 * MIB, gt=0)  #: of a batch of reports
    output_limit: int = Field(default=100 * 1024 * MIB, gt=0)  #: of one file that a job wrote
    log_limit: int = Field(default=4_000_000, gt=0)  #: characters kept of one attempt's log

    access_token_seconds: int = Field(default=900, gt=0)
    refresh_token_seconds: int = Field(default=30 * 24 * 3600, gt=0)
    session_seconds: int = Field(default=7 * 24 * 3600, gt=0)
    worker_token_seconds: int = Field(default=900, gt=0)
    login_attempts: int = Field(default=10, gt=0)  #: wrong ones per account and address …
    login_window_seconds: int = Field(default=300, gt=0)  #: … in this time

    heartbeat_seconds: float = Field(default=5.0, gt=0)
    lease_seconds: float = Field(default=30.0, gt=0)  #: silent for longer, and a worker is lost
    max_attempts: int = Field(default=3, gt=0)

    log_level: str = "INFO"
    log_json: bool = True

    @property
    def cache(self) -> Path:
        """The folder of finished outputs."""
        return self.data / "cache"

    @property
    def files(self) -> Path:
        """The folder of uploaded files, each under its hash."""
        return self.data / "files"

    @property
    def hosts(self) -> frozenset[str]:
        """Names that the Host header may hold, lower case, without port."""
        return frozenset(name.lower() for name in (*self.allowed_hosts, self.host))

    def public(self) -> dict[str, object]:
        """Return the settings as they may be printed: secrets masked."""
        return self.model_dump(mode="json")


def is_local(address: str) -> bool:
    """Tell whether a peer's address is of this machine."""
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False
