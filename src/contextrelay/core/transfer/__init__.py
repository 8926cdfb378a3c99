"""Transfer: threads as zip files, stores as backups."""
