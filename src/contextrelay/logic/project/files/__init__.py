"""Project files as text: decoded, edited in place, made from templates."""
