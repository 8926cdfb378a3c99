"""Push: store bodies, create artifacts from them, and add these to threads."""
