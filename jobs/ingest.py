"""The ingest job: `ray job submit -- python jobs/ingest.py PATH… --store STORE` (see `rayrag ingest --help`)."""

import sys

from rayrag.cli.main import main

if __name__ == "__main__":
    sys.exit(main(["ingest", "--executor", "ray", *sys.argv[1:]]))
