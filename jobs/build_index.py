"""The build job: `ray job submit -- python jobs/build_index.py --store STORE` (see `rayrag build-index --help`)."""

import sys

from rayrag.cli.main import main

if __name__ == "__main__":
    sys.exit(main(["build-index", "--executor", "ray", *sys.argv[1:]]))
