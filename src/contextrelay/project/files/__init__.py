"""The files of a project: read, locked, replaced, journalled, backed up."""
