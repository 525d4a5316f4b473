"""`python -m backend.worker`."""

from __future__ import annotations

import sys

from backend.worker.main import main

if __name__ == "__main__":
    sys.exit(main())
