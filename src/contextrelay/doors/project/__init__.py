"""The project door: four files that people own, read and written as one."""
