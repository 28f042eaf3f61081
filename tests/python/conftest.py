import os
import pathlib
import sys

# Uses the package of the build folder that runs these tests or, without one, the installed package.
if os.environ.get("SUBQUAD_PACKAGE"):
    sys.path.insert(0, os.environ["SUBQUAD_PACKAGE"])
sys.path.insert(0, str(pathlib.Path(__file__).parent))
