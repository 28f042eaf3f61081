import os
import pathlib
import sys

# The package of the build folder that runs these tests; without one, the installed package.
if os.environ.get("SUBQUAD_PACKAGE"):
    sys.path.insert(0, os.environ["SUBQUAD_PACKAGE"])
sys.path.insert(0, str(pathlib.Path(__file__).parent))
