"""Commands of `relay project`."""
