"""Looking inside a ref: grep, slices, and what of a body is read for them."""
