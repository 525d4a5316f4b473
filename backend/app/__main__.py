"""`python -m backend.app`."""

from __future__ import annotations

import sys

from backend.app.cli import main

sys.exit(main())
