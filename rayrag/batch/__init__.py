"""Where work runs on Ray: an executor for builds, and the submission of jobs. No logic of its own."""
