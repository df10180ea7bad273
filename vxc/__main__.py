"""`python -m vxc` is `vxc`."""

from __future__ import annotations

import sys

from vxc.cli.main import main

sys.exit(main())
