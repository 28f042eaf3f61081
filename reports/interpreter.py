"""Selects the Python for a command of this package: the one it was started with or, if that lacks NumPy, matplotlib or jsonschema,
the system's, for which ./setup installs them. Needs only the standard library.
"""

import importlib.util
import os
import pathlib
import sys

SYSTEM = "/usr/bin/python3"  # run-sweeps and the tests take it too
TRIED = "SUBQUAD_SYSTEM_PYTHON"  # set for the system's Python, so that it does not start itself


def instead(name, error, keep=()):
    """Restarts the command with the system's Python after `error`, an ImportError; does not return.

    name: __name__ of the module that failed. If it was imported and not run, the error is raised again.
    keep: packages that the current Python has and that a replacement must have too.
    If the system's Python lacks a package too, prints one line on standard error and exits with status 2.
    """
    if name != "__main__" or (error.name or "").partition(".")[0] == "reports":
        raise error
    kept = [package for package in keep if importlib.util.find_spec(package)]
    if not kept and TRIED not in os.environ and os.access(SYSTEM, os.X_OK):
        os.environ[TRIED] = "1"
        sys.stderr.flush()
        os.execv(SYSTEM, [SYSTEM, *sys.orig_argv[1:]])
    if kept:
        where, hint = f"beside {kept[0]}", ", which python3 -m venv --system-site-packages takes over"
    else:
        where, hint = f"in python3 or {SYSTEM}", ""
    print(
        f"{pathlib.Path(sys.argv[0]).name}: expected numpy, matplotlib and jsonschema {where}, found no {error.name or error}; "
        f"./setup installs them for the system's Python{hint}",
        file=sys.stderr,
    )
    sys.exit(2)
