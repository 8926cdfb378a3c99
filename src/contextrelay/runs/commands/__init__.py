"""Commands that run models and wrap other programs."""
