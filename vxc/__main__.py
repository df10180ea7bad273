"""The command's entry: `python -m vxc` is `vxc`."""

from __future__ import annotations

import sys


def main() -> int:
    """Run the command line; gives the exit status, 130 also for an interrupt while modules are imported."""
    try:
        from vxc.cli.main import main  # takes a tenth of a second, in which Ctrl-C is to be no traceback

        return main()
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
