"""`python -m rayrag`: the command line."""

import sys

from rayrag.cli.main import main

sys.exit(main())
