"""Looking into artifacts without loading them: outline, slice, grep, diff."""
