"""What happens to a run from its creation to its end."""
