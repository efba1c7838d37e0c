"""``python -m coupling.worker``."""

import sys

from coupling.worker.process import main

sys.exit(main())
