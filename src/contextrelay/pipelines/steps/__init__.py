"""What steps do: each kind of step in one try, its values, its processes, and its end."""
